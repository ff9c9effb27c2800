"""The demo with stand-ins for its parts: what becomes of it when they, or it, or its reader, end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from penstock.demo.ending import end_cluster, nodes_of
from penstock.supervisor.folder import STOPPING, ClusterFolder
from tests.support import fake_demo_part
from tests.support.demo import STAND_INS, DemoProcess
from tests.support.managed_process import ROOT, SOURCE
from tests.support.supervised import SupervisedCluster
from tests.support.wait import wait_until

ALL_COUNTED = re.compile(r"counted ([\d,]+) of \1 positions, 0 lost, 0 twice")


def test_it_runs_and_ends_by_itself(tmp_path: Path) -> None:
    with DemoProcess(tmp_path, STAND_INS, "--seconds", "0.5") as demo:
        assert demo.wait() == 0
        demo.wait_until_nothing_is_left(timeout_s=0)
        assert demo.errors == ""
        assert "\x1b" not in demo.output
        demo.wait_for("flights: 20,000 itineraries in 0.1 s: q1 1, q2 2, q3 3, q4 4")
        assert any(map(ALL_COUNTED.fullmatch, demo.lines))
        assert demo.lines[-1] == "stopped: nothing is left running, the data is gone"


def test_a_heat_map_job_that_is_killed_goes_on(tmp_path: Path) -> None:
    with DemoProcess(tmp_path, STAND_INS) as demo:
        demo.wait_for("the map is live")
        os.kill(demo.part("heatmap"), signal.SIGKILL)
        demo.wait_for("the heat map ended (killed by signal 9): starting again, 1 of 5")
        demo.wait_for("started the heat map again")
        demo.interrupt()
        assert demo.wait() == 0
        assert any(map(ALL_COUNTED.fullmatch, demo.lines))


def test_nothing_is_claimed_of_cars_that_were_killed(tmp_path: Path) -> None:
    with DemoProcess(tmp_path, STAND_INS) as demo:
        demo.wait_for("the map is live")
        os.kill(demo.part("cars"), signal.SIGKILL)
        demo.wait_for("started the cars again")
        demo.process.terminate()
        assert demo.wait() == 0
        demo.wait_for("positions; what the cars sent is not known: they ended before they could say it")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (fake_demo_part.LOG_REPEATS, "written twice"),
        (fake_demo_part.MAP_LOSES, "not read by the map"),
    ],
)
def test_what_is_lost_or_there_twice_fails_the_demo_with_its_number(
    tmp_path: Path, fault: str, words: str
) -> None:
    with DemoProcess(tmp_path, STAND_INS, "--seconds", "0.5", "--fault", fault) as demo:
        assert demo.wait() == 1
        verdict = demo.wait_for(words)
        found = re.search(rf"[:,] (\d+) {words}.* \(the cars sent ([\d,]+), the log has ([\d,]+), ", verdict)
        assert found is not None, verdict
        assert int(found[1]) > 0
        assert demo.errors == f"penstock: the heat map is not what the cars sent: {verdict}\n"


def test_a_part_that_cannot_run_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    with DemoProcess(tmp_path, STAND_INS, "--seconds", "1", "--refuse", "heatmap") as demo:
        assert demo.wait() == 1
        demo.wait_for("the heat map cannot run: there is no such thing here")
        demo.wait_for("the map stays dark; the cluster, the cars and the console go on")
        demo.wait_for("10 cars are on the road")
        assert demo.errors == "penstock: the heat map could not run: there is no such thing here\n"


def test_without_a_cluster_there_is_no_demo(tmp_path: Path) -> None:
    with DemoProcess(tmp_path, STAND_INS, "--refuse", "cluster") as demo:
        assert demo.wait() == 1
        assert (
            demo.errors == "penstock: the cluster's supervisor could not run: there is no such thing here\n"
        )


def test_an_early_interrupt(tmp_path: Path) -> None:
    with DemoProcess(tmp_path, STAND_INS) as demo:
        demo.wait_for("starting 3 brokers")
        demo.interrupt()
        assert demo.wait() == 0
        demo.wait_until_nothing_is_left(timeout_s=0)
        assert demo.errors == ""


def test_a_second_interrupt_does_not_wait_for_anything(tmp_path: Path) -> None:
    with DemoProcess(tmp_path, STAND_INS) as demo:
        demo.wait_for("the map is live")
        os.kill(demo.part("heatmap"), signal.SIGSTOP)
        demo.interrupt()
        demo.wait_for("waiting until the heat map has counted what the cars sent")
        demo.interrupt()
        assert demo.wait(timeout_s=30.0) == 0
        demo.wait_for("stopping at once: what was counted is not compared with what was sent")
        demo.wait_until_nothing_is_left(timeout_s=0)


@pytest.mark.parametrize("is_paused", [False, True], ids=["", "with a part that is paused"])
def test_killed_it_leaves_nothing(tmp_path: Path, is_paused: bool) -> None:
    with DemoProcess(tmp_path, STAND_INS) as demo:
        demo.wait_for("the map is live")
        if is_paused:
            os.kill(demo.part("cars"), signal.SIGSTOP)
        assert len(demo.processes()) >= 6  # with its guard, and the child of a part
        demo.process.kill()
        demo.wait_until_nothing_is_left()


def test_a_guard_that_was_killed_is_not_missed(tmp_path: Path) -> None:
    with DemoProcess(tmp_path, STAND_INS) as demo:
        demo.wait_for("the map is live")
        guard = next(each for each in demo.processes() if "penstock.demo.guard" in each.cmdline())
        guard.kill()
        wait_until(lambda: guard.status() == psutil.STATUS_ZOMBIE, "the end of the guard")
        demo.interrupt()
        assert demo.wait() == 0


def test_data_is_kept_and_gone_on_with(tmp_path: Path) -> None:
    data = tmp_path / "data"
    counts = []
    for name in ("first", "second"):
        with DemoProcess(tmp_path / name, STAND_INS, "--seconds", "0.5", "--data", str(data)) as demo:
            assert demo.wait() == 0
            (counted,) = filter(None, map(ALL_COUNTED.fullmatch, demo.lines))
            counts.append(int(counted[1].replace(",", "")))
            assert demo.lines[-1] == f"stopped: nothing is left running, the data is in {data}"
    assert counts[1] > counts[0] > 0
    assert (data / "logs" / "cars.log").exists()


def test_a_reader_that_goes_away_ends_it(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{ROOT}", "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.fake_demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    ) as demo:
        assert demo.stdout is not None
        assert demo.stderr is not None
        demo.stdout.readline()
        demo.stdout.close()
        wait_until(lambda: demo.poll() is not None, "the end of the demo", timeout_s=30)
        assert demo.stderr.read() == b""
    assert list(tmp_path.iterdir()) == []


# The cluster, with nodes that only look like nodes


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SupervisedCluster]:
    with SupervisedCluster(tmp_path, brokers=3, module="tests.support.fake_penstock_up") as cluster:
        yield cluster


def test_a_cluster_ends_with_its_supervisor(cluster: SupervisedCluster) -> None:
    end_cluster(cluster.folder, 30.0)
    assert cluster.process.wait(10) == 0
    assert nodes_of(cluster.folder) == []


def test_nodes_that_lost_their_supervisor_are_ended_too(cluster: SupervisedCluster) -> None:
    cluster.kill()
    paused, *_ = nodes_of(cluster.folder)
    paused.signal(signal.SIGSTOP)
    assert len(nodes_of(cluster.folder)) == 3
    end_cluster(cluster.folder, 30.0)
    assert nodes_of(cluster.folder) == []
    status = cluster.folder.read_supervisor()
    assert status is not None
    assert status.state == STOPPING, "or a controller would call another supervisor"


def test_nobody_is_waited_for_without_patience(cluster: SupervisedCluster) -> None:
    end_cluster(cluster.folder, 30.0, lambda: False)
    assert cluster.process.wait(10) == -signal.SIGKILL
    assert nodes_of(cluster.folder) == []


def test_a_cluster_that_never_was(tmp_path: Path) -> None:
    end_cluster(ClusterFolder(tmp_path / "none"), 30.0)
