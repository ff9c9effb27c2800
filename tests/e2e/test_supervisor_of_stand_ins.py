"""The supervisor and its processes. The nodes are stand-ins: it sees no more of a node than they show."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.broker.node_status import process_state
from penstock.signalling import send_signal
from penstock.supervisor.output_logs import LOG_BYTES_MAX
from penstock.supervisor.revive import ensure_running
from tests.support.commands import penstock
from tests.support.fake_penstock_up import SUCCESSOR
from tests.support.ports import free_port
from tests.support.supervised import SupervisedCluster
from tests.support.wait import wait_until

FAKE = "tests.support.fake_penstock_up"


def fake_cluster(
    folder: Path, *options: str, brokers: int = 3, controllers: int | None = None
) -> SupervisedCluster:
    return SupervisedCluster(folder, *options, brokers=brokers, controllers=controllers, module=FAKE)


def complaint(cluster: SupervisedCluster, *options: str) -> str:
    """Of another `penstock up` on the same folder."""
    command = [*cluster.command(), *options]
    for option in ("--port", "--http-port"):
        if f"{option}=" not in " ".join(options):
            command[command.index(option) + 1] = str(free_port())
    result = subprocess.run(command, capture_output=True, text=True, env=cluster.environment, timeout=60)
    assert result.returncode == 1, result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr.removeprefix("penstock: ").rstrip("\n")


def count(file: Path) -> int:
    return len(file.read_text().splitlines()) if file.exists() else 0


def crash(cluster: SupervisedCluster) -> None:
    """kill -9 of the supervisor, and nobody there to call another."""
    cluster.kill()
    assert cluster.supervisor_pid() is None


# Start and stop


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ready_line_and_clean_stop(tmp_path: Path, number: signal.Signals) -> None:
    with fake_cluster(tmp_path, brokers=2, controllers=1) as cluster:
        assert cluster.wait_ready() == f"ready kafka={cluster.bootstrap} http={cluster.http}"
        pids = cluster.node_pids()
        assert set(pids) == {1, 2, 1001}
        assert None not in pids.values()
        cluster.signal(number)
        assert cluster.wait() == 0
        assert all(process_state(pid or 0) is None for pid in pids.values())
        stops = {node: (cluster.data / f"node-{node}" / "stops").read_text() for node in pids}
        assert max(int(stops[1]), int(stops[2])) < int(stops[1001]), "brokers stop before controllers"
        assert cluster.log.splitlines() == [cluster.log.splitlines()[0]]


@pytest.mark.parametrize("heard", [True, False])
def test_the_end_of_its_terminal_is_a_clean_stop_unless_it_was_told_to_ignore_it(
    tmp_path: Path, heard: bool
) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL if heard else signal.SIG_IGN)  # children inherit it
    try:
        with fake_cluster(tmp_path, brokers=2) as cluster:
            cluster.signal(signal.SIGHUP)
            if not heard:
                assert cluster.ask("/healthz") == {"status": "success"}
                cluster.signal(signal.SIGTERM)
            assert cluster.wait() == 0
            assert set(cluster.node_pids().values()) == {None}
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_same_cluster_again(tmp_path: Path) -> None:
    with fake_cluster(tmp_path, brokers=2) as cluster:
        first = cluster.status()
        assert cluster.terminate() == 0
        cluster.options = ()  # the folder knows what it holds
        cluster.start()
        again = cluster.status()
        for status in (first, again):
            for broker in status["brokers"]:
                broker.pop("pid")
            status.pop("nodes")
        assert again == first


def test_without_http(tmp_path: Path) -> None:
    with fake_cluster(tmp_path, "--no-http", brokers=2) as cluster:
        assert cluster.wait_ready() == f"ready kafka={cluster.bootstrap}"


def test_a_node_that_does_not_start_is_named(tmp_path: Path) -> None:
    cluster = fake_cluster(tmp_path, brokers=2)
    with cluster:
        assert cluster.terminate() == 0
        (cluster.data / "node-2" / "refuse").write_text("the moon is full")
        assert complaint(cluster) == "node 2 did not start: exit code 1: the moon is full"
        assert set(cluster.node_pids().values()) == {None}
        (cluster.data / "node-2" / "refuse").unlink()
        cluster.start()


def test_a_taken_port(tmp_path: Path) -> None:
    with fake_cluster(tmp_path, brokers=2) as cluster:
        other = ["up", "--data", str(tmp_path / "other"), "--brokers", "2", "--port", str(free_port())]
        taken = f"cannot listen on 127.0.0.1:{cluster.http_port}: Address already in use"
        refused = penstock(*other, "--http-port", str(cluster.http_port), "--no-gateway")
        assert refused.complaint == taken
        refused = penstock(*other, "--http-port", str(cluster.http_port))
        assert refused.complaint == f"the gateway did not start: exit code 1: {taken}"


def test_a_signal_during_the_start_stops_what_was_started(tmp_path: Path) -> None:
    cluster = fake_cluster(tmp_path, brokers=2)
    with cluster:
        assert cluster.terminate() == 0
        (cluster.data / "node-2" / "silent").touch()
        cluster.spawn()
        wait_until(lambda: cluster.node_pid(1), "node 1")
        cluster.signal(signal.SIGTERM)
        assert cluster.wait() == 0
        assert "ready" not in cluster.log
        assert [cluster.folder.node(node).read_pid() for node in (1, 2)] == [None, None]


# What is killed comes back


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_node_that_ends_is_started_again(tmp_path: Path, number: signal.Signals) -> None:
    with fake_cluster(tmp_path, brokers=2) as cluster:
        before = cluster.node_pids()
        os.kill(before[2] or 0, number)
        cluster.wait_for_new_pid(2, before[2])
        wait_until(lambda: not cluster.missing(), "readiness")
        assert cluster.node_pid(1) == before[1]
        ended = cluster.events("node_ended")
        assert [(event["nodes"], event["text"]) for event in ended] == [([2], "node 2 ended")]
        assert ended[0]["cause"] == ("killed by SIGKILL" if number == signal.SIGKILL else "exit code 0")


def test_not_ready_while_a_node_is_missing(tmp_path: Path) -> None:
    with fake_cluster(tmp_path, brokers=2) as cluster:
        (cluster.data / "node-2" / "silent").touch()
        os.kill(cluster.node_pid(2) or 0, signal.SIGKILL)
        wait_until(lambda: cluster.missing() == "not all nodes serve: node 2 is starting", "what is missing")
        assert [each["state"] for each in cluster.status()["brokers"]] == ["running", "starting"]
        assert cluster.ask("/healthz") == {"status": "success"}


def test_a_node_that_cannot_live_does_not_disturb_the_others(tmp_path: Path) -> None:
    with fake_cluster(tmp_path, brokers=2) as cluster:
        starts = cluster.data / "node-2" / "starts"
        refuse = cluster.data / "node-2" / "refuse"
        refuse.write_text("no")
        os.kill(cluster.node_pid(2) or 0, signal.SIGKILL)
        wait_until(lambda: count(starts) >= 3, "tries")
        assert cluster.running
        assert cluster.node_pid(1) is not None
        refuse.unlink()
        wait_until(lambda: cluster.node_pid(2), "the node whose trouble is over")


def test_a_paused_node_is_shown_and_stopped(tmp_path: Path) -> None:
    with fake_cluster(tmp_path, brokers=2) as cluster:
        paused = cluster.node_pid(2) or 0
        send_signal(paused, signal.SIGSTOP, b"fake_penstock_node")  # on purpose: it is not ended
        wait_until(lambda: cluster.status()["brokers"][1]["state"] == "paused", "the paused node")
        assert cluster.terminate() == 0
        assert process_state(paused) is None


def test_a_node_that_hangs_is_ended_and_started_again(tmp_path: Path) -> None:
    with fake_cluster(tmp_path, brokers=2) as cluster:
        hanging = cluster.node_pid(2)
        os.kill(hanging or 0, signal.SIGSTOP)
        cluster.wait_for_new_pid(2, hanging)
        assert cluster.terminate() == 0


# The end of the supervisor is not the end of the nodes


def test_a_new_supervisor_adopts_what_runs(tmp_path: Path) -> None:
    with fake_cluster(tmp_path, brokers=3) as cluster:
        before = cluster.node_pids()
        crash(cluster)
        os.kill(before[3] or 0, signal.SIGKILL)
        wait_until(lambda: cluster.node_pid(3) is None, "the end of node 3")
        assert cluster.node_pids() == before | {3: None}
        cluster.start()
        after = cluster.node_pids()
        assert {1: after[1], 2: after[2]} == {1: before[1], 2: before[2]}
        assert after[3] not in (None, before[3])
        # It watches them as if they were its own.
        os.kill(after[1] or 0, signal.SIGKILL)
        cluster.wait_for_new_pid(1, after[1])
        assert cluster.terminate() == 0
        assert set(cluster.node_pids().values()) == {None}
        assert count(cluster.data / "node-2" / "stops") == 1


def test_a_node_that_was_still_starting_is_adopted_too(tmp_path: Path) -> None:
    with fake_cluster(tmp_path, brokers=2) as cluster:
        silent = cluster.data / "node-2" / "silent"
        silent.touch()
        os.kill(cluster.node_pid(2) or 0, signal.SIGKILL)
        wait_until(lambda: count(cluster.data / "node-2" / "starts") == 2, "its start")
        starting = wait_until(lambda: cluster.folder.node(2).read_pid(), "its pid")
        crash(cluster)
        cluster.spawn()
        wait_until(lambda: (cluster.supervisor_pid() or 0) == cluster.pid, "the new supervisor")
        adopted = wait_until(lambda: cluster.events("node_adopted"), "adoption")
        assert {event["nodes"][0] for event in adopted} == {1, 2}
        assert cluster.folder.node(2).read_pid() == starting
        silent.unlink()
        os.kill(starting, signal.SIGKILL)
        cluster.wait_ready()


def test_a_second_supervisor_is_refused(tmp_path: Path) -> None:
    with fake_cluster(tmp_path, brokers=2) as cluster:
        before = cluster.node_pids()
        assert complaint(cluster) == f"{cluster.data} is in use by the supervisor with pid {cluster.pid}"
        assert cluster.node_pids() == before
        assert cluster.supervisor_pid() == cluster.pid
        assert cluster.ask("/readyz") == {"status": "success"}


def test_a_supervisor_that_was_killed_is_revived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_cluster(tmp_path, brokers=2) as cluster:
        monkeypatch.setenv("PYTHONPATH", cluster.environment["PYTHONPATH"])
        assert not ensure_running(cluster.data, SUCCESSOR)
        before = cluster.node_pids()
        crash(cluster)
        os.kill(before[2] or 0, signal.SIGKILL)
        assert ensure_running(cluster.data, SUCCESSOR)
        assert not ensure_running(cluster.data, SUCCESSOR), "one that is starting is given time"
        successor = wait_until(cluster.supervisor_pid, "a new supervisor")
        cluster.wait_for_new_pid(2, before[2])
        assert cluster.node_pid(1) == before[1]
        wait_until(lambda: revived_status(cluster) == successor, "its endpoint, on the port of the first")
        assert not ensure_running(cluster.data, SUCCESSOR)
        os.kill(successor, signal.SIGTERM)
        wait_until(lambda: process_state(successor) is None, "its end")
        assert set(cluster.node_pids().values()) == {None}


def revived_status(cluster: SupervisedCluster) -> int | None:
    try:
        return int(cluster.status()["nodes"][-1]["pid"])
    except OSError:
        return None


def test_a_clean_stop_is_not_undone(tmp_path: Path) -> None:
    with fake_cluster(tmp_path, brokers=2) as cluster:
        assert cluster.terminate() == 0
        assert not ensure_running(cluster.data, SUCCESSOR)
    assert not ensure_running(tmp_path / "nothing", SUCCESSOR)


# What the folder allows


def test_more_brokers(tmp_path: Path) -> None:
    with fake_cluster(tmp_path, brokers=2) as cluster:
        assert cluster.terminate() == 0
        cluster.options = ("--brokers", "3")
        cluster.start()
        assert [(each["id"], each["roles"]) for each in cluster.status()["brokers"]] == [
            (1, ["broker", "controller"]),
            (2, ["broker"]),
            (3, ["broker"]),
        ]
        assert cluster.wait_ready().startswith(
            f"ready kafka={cluster.bootstrap},127.0.0.1:{cluster.port + 2} "
        )


def test_fewer_brokers_are_refused(tmp_path: Path) -> None:
    with fake_cluster(tmp_path, brokers=2) as cluster:
        assert cluster.terminate() == 0
        refused = complaint(cluster, "--brokers", "1")
        assert refused == f"{cluster.data} holds a cluster of 2 brokers; --brokers may only be more"
        assert cluster.node_ids == [1, 2]


def test_a_damaged_record_of_the_cluster(tmp_path: Path) -> None:
    with fake_cluster(tmp_path, brokers=2) as cluster:
        assert cluster.terminate() == 0
        path = cluster.data / "cluster.json"
        whole = path.read_text()
        path.write_text(whole[: len(whole) // 2])
        assert complaint(cluster) == f"{path} is damaged: it is no JSON object"
        assert path.read_text() == whole[: len(whole) // 2]
        path.write_text(whole)


def test_the_folder_of_a_single_node_is_left_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "meta.json").write_text("{}")
    refused = penstock("up", "--data", str(data), "--brokers", "2").complaint
    assert refused == f"{data} holds the data of a single node; a cluster needs a folder of its own"
    assert os.listdir(data) == ["meta.json"]


# Commands


def test_kill_and_log(tmp_path: Path) -> None:
    with fake_cluster(tmp_path, brokers=2) as cluster:
        before = cluster.node_pids()
        lines = penstock("cluster", "kill", "2", broker=cluster).lines
        assert lines == [f"sent SIGKILL to node 2, process {before[2]}"]
        new = cluster.wait_for_new_pid(2, before[2])
        shown = [line[25:] for line in penstock("cluster", "log", broker=cluster).lines]
        assert "node 2 ended (killed by SIGKILL)" in shown
        assert f"node 2 started as process {new}" in shown
        assert "a controller" in shown
        told = [json.loads(line) for line in penstock("cluster", "log", "--json", broker=cluster).lines]
        assert [event["offset"] for event in told if event["source"] == "cluster"] == [7]
        traced = penstock("cluster", "trace", "--shiviz", broker=cluster).lines
        assert traced[0].startswith("node-1 {")
        assert penstock("cluster", "kill", "controller", "--signal", "TERM", broker=cluster).lines == [
            f"sent SIGTERM to node 1, process {before[1]}"
        ]
        for absent in ("gateway", "flights", "77"):
            name = f"node {absent}" if absent.isdigit() else absent
            refused = penstock("cluster", "kill", absent, broker=cluster).complaint
            assert refused == f"{name}: not part of this cluster"


def test_logs_are_kept_short_while_processes_write_to_them(tmp_path: Path) -> None:
    with fake_cluster(tmp_path, brokers=2) as cluster:
        cluster.wait_ready()
        for path in (cluster.folder.node(2).log, cluster.folder.log):
            with path.open("ab") as output:
                output.write(b"x" * (LOG_BYTES_MAX + 1))
            wait_until(lambda path=path: path.stat().st_size < LOG_BYTES_MAX, f"a short {path.name}")  # type: ignore[misc]
            assert path.with_name(f"{path.name}.1").stat().st_size == LOG_BYTES_MAX


def test_the_supervisor_is_stopped_by_a_signal_too(tmp_path: Path) -> None:
    with fake_cluster(tmp_path, brokers=2) as cluster:
        lines = penstock("cluster", "kill", "supervisor", "--signal", "TERM", broker=cluster).lines
        assert lines == [f"sent SIGTERM to the supervisor, process {cluster.pid}"]
        assert cluster.wait() == 0
        refused = penstock("cluster", "kill", "1", broker=cluster).complaint
        assert refused == f"no admin endpoint at {cluster.http}: Connection refused"


def test_the_log_goes_on_over_the_end_of_a_supervisor(tmp_path: Path) -> None:
    with fake_cluster(tmp_path, brokers=2) as cluster:
        output = tmp_path / "followed"
        with (
            output.open("wb") as file,
            subprocess.Popen(
                [sys.executable, "-m", "penstock", "cluster", "log", "--follow", "--http", cluster.http],
                stdout=file,
                env=cluster.environment,
            ) as follower,
        ):
            wait_until(lambda: "node 2 serves" in output.read_text(), "the log so far")
            crash(cluster)
            cluster.start()
            wait_until(lambda: "node 2 runs already" in output.read_text(), "the log of its successor")
            follower.send_signal(signal.SIGINT)
            assert follower.wait(20) == 0
        lines = output.read_text().splitlines()
        assert len(lines) == len(set(lines)), "nothing is told twice"
