"""`penstock up --brokers N`: a cluster of real nodes under its supervisor, as a user meets it."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from penstock.broker.node_status import process_state
from tests.support.commands import penstock
from tests.support.supervised import SupervisedCluster
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BACK_SECONDS_MAX = 30.0
"""A deadline for waiting, and no promise: how long it takes is for benchmarks."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedCluster]:
    """Three brokers, for tests that leave all of them, and their supervisor, running."""
    with SupervisedCluster(tmp_path_factory.mktemp("three"), brokers=3) as running:
        yield running


@pytest.fixture(scope="module")
def with_controllers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedCluster]:
    folder = tmp_path_factory.mktemp("with-controllers")
    with SupervisedCluster(folder, brokers=2, controllers=3) as cluster:
        yield cluster


def status(cluster: SupervisedCluster) -> dict[str, Any]:
    """As the command tells it, from the brokers themselves."""
    told: dict[str, Any] = json.loads(penstock("cluster", "status", "--json", broker=cluster).lines[0])
    return told


def partition(cluster: SupervisedCluster, topic: str) -> dict[str, Any]:
    topics = {each["name"]: each for each in status(cluster)["topics"]}
    first: dict[str, Any] = topics[topic]["partitions"][0]
    return first


def states(cluster: SupervisedCluster) -> dict[int, str]:
    return {each["id"]: each["state"] for each in cluster.status()["brokers"]}


def wait_in_sync(cluster: SupervisedCluster, topic: str, replicas: set[int]) -> None:
    wait_until(
        lambda: set(partition(cluster, topic)["isr"]) == replicas,
        f"{sorted(replicas)} in sync",
        timeout_s=BACK_SECONDS_MAX,
    )


def write(cluster: SupervisedCluster, topic: str, *lines: str) -> None:
    assert penstock("produce", topic, broker=cluster, stdin="".join(f"{line}\n" for line in lines)).code == 0


def read(cluster: SupervisedCluster, topic: str, count: int) -> list[str]:
    return penstock("consume", topic, "-n", str(count), broker=cluster).lines


def create(cluster: SupervisedCluster, topic: str, replicas: int = 3) -> None:
    assert penstock("topics", "create", topic, "--replicas", str(replicas), broker=cluster).code == 0


def test_a_cluster_from_its_start_to_its_end(tmp_path: Path) -> None:
    with SupervisedCluster(tmp_path, brokers=3) as cluster:
        assert cluster.wait_ready() == f"ready kafka={cluster.bootstrap} http={cluster.http}"
        create(cluster, "orders")
        write(cluster, "orders", "a", "b")
        wait_in_sync(cluster, "orders", {1, 2, 3})
        seen = status(cluster)
        assert seen["controller"] in (1, 2, 3)
        pids = cluster.node_pids()
        assert all(0 <= broker.pop("load")["busy"] <= 1 for broker in seen["brokers"])
        assert seen["brokers"] == [
            {
                "id": node,
                "host": "127.0.0.1",
                "port": cluster.port + node - 1,
                "pid": pids[node],
                "state": "running",
                "roles": ["broker", "controller"],
                "rack": None,
            }
            for node in (1, 2, 3)
        ]
        assert partition(cluster, "orders")["high_watermark"] == 2
        assert not cluster.missing()
        everything = (cluster.data, *cluster.data.rglob("*"))
        assert not [path for path in everything if path.stat().st_mode & 0o077], "it is its user's alone"
        assert cluster.terminate() == 0
        assert all(process_state(pid or 0) is None for pid in pids.values())
        assert not (cluster.data / ".supervisor.called").exists(), "no controller undoes a clean stop"
        cluster.start()
        assert read(cluster, "orders", 2) == ["a", "b"]
        assert status(cluster)["cluster_id"] == seen["cluster_id"]


def test_the_endpoint_tells_what_the_brokers_tell(cluster: SupervisedCluster, topic: str) -> None:
    create(cluster, topic)
    write(cluster, topic, "a")
    wait_in_sync(cluster, topic, {1, 2, 3})
    wait_until(lambda: cluster.status() == status(cluster), "the same from both")


def test_a_killed_leader_is_replaced_and_comes_back(cluster: SupervisedCluster, topic: str) -> None:
    create(cluster, topic)
    write(cluster, topic, "a")
    wait_in_sync(cluster, topic, {1, 2, 3})
    leader = partition(cluster, topic)["leader"]
    pid = cluster.node_pid(leader)
    lines = penstock("cluster", "kill", f"leader:{topic}", broker=cluster).lines
    assert lines == [f"sent SIGKILL to node {leader}, process {pid}"]
    write(cluster, topic, "b")
    assert partition(cluster, topic)["leader"] != leader
    cluster.wait_for_new_pid(leader, pid, timeout_s=BACK_SECONDS_MAX)
    wait_in_sync(cluster, topic, {1, 2, 3})
    assert read(cluster, topic, 2) == ["a", "b"]
    wait_until(
        lambda: [
            event
            for event in cluster.events("leader_elected")
            if event["topic"] == topic and event["nodes"][-1] == leader
        ],
        "the election in the cluster log",
    )
    shown = penstock("cluster", "log", broker=cluster).lines
    assert any(line.endswith(f"node {leader} ended (killed by SIGKILL)") for line in shown)
    traced = penstock("cluster", "trace", "--shiviz", broker=cluster).lines
    assert len(traced) % 2 == 0
    assert any(line.startswith(f"node-{leader} ") for line in traced)


def test_a_killed_supervisor_and_broker_are_both_back(tmp_path: Path) -> None:
    with SupervisedCluster(tmp_path, brokers=3) as cluster:
        create(cluster, "orders")
        write(cluster, "orders", "a")
        before = cluster.node_pids()
        os.kill(before[2] or 0, signal.SIGKILL)
        cluster.kill()
        successor = wait_until(cluster.supervisor_pid, "a new supervisor", timeout_s=BACK_SECONDS_MAX)
        cluster.wait_for_new_pid(2, before[2], timeout_s=BACK_SECONDS_MAX)
        assert cluster.node_pids() == before | {2: cluster.node_pid(2)}, "the others were adopted"
        wait_until(lambda: supervisor_told(cluster) == successor, "its endpoint", timeout_s=BACK_SECONDS_MAX)
        wait_in_sync(cluster, "orders", {1, 2, 3})
        write(cluster, "orders", "b")
        assert read(cluster, "orders", 2) == ["a", "b"]
        penstock("cluster", "kill", "supervisor", "--signal", "TERM", broker=cluster)
        wait_until(lambda: process_state(successor) is None, "a clean stop", timeout_s=BACK_SECONDS_MAX)
        assert set(cluster.node_pids().values()) == {None}


def supervisor_told(cluster: SupervisedCluster) -> int | None:
    try:
        told = {each["id"]: each for each in cluster.status()["nodes"]}
    except OSError:
        return None
    return int(told["supervisor"]["pid"])


def test_every_process_killed_at_once(tmp_path: Path) -> None:
    with SupervisedCluster(tmp_path, brokers=3) as cluster:
        create(cluster, "orders")
        write(cluster, "orders", "a", "b")
        pids = [*cluster.node_pids().values(), cluster.pid]
        for pid in pids:
            os.kill(pid or 0, signal.SIGKILL)
        cluster.kill()
        wait_until(lambda: all(process_state(pid or 0) is None for pid in pids), "the end of all")
        cluster.start()
        assert read(cluster, "orders", 2) == ["a", "b"]


def test_another_start_on_the_folder_is_refused_and_harms_nothing(
    cluster: SupervisedCluster, topic: str
) -> None:
    write(cluster, topic, "a")
    before = cluster.node_pids()
    for options in (["--brokers", "2"], ["--brokers", "5"], []):
        refused = penstock("up", "--data", str(cluster.data), *options)
        assert refused.complaint == f"{cluster.data} is in use by the supervisor with pid {cluster.pid}"
    assert cluster.node_pids() == before
    assert read(cluster, topic, 1) == ["a"]


def test_a_broker_is_added(tmp_path: Path) -> None:
    with SupervisedCluster(tmp_path, brokers=2) as cluster:
        create(cluster, "orders", replicas=2)
        write(cluster, "orders", "a")
        assert cluster.terminate() == 0
        cluster.options = ("--brokers", "3")
        cluster.start()
        wait_until(lambda: states(cluster) == dict.fromkeys((1, 2, 3), "running"), "three brokers")
        create(cluster, "payments", replicas=3)
        write(cluster, "payments", "b")
        assert read(cluster, "orders", 1) + read(cluster, "payments", 1) == ["a", "b"]


@pytest.mark.parametrize("number", ["KILL", "TERM"])
def test_the_active_controller_is_killed(
    with_controllers: SupervisedCluster, topic: str, number: str
) -> None:
    nodes = {each["id"]: each for each in status(with_controllers)["nodes"]}
    assert [nodes[node]["roles"] for node in (1001, 1002, 1003)] == [["controller"]] * 3
    active = wait_until(lambda: with_controllers.status()["controller"], "an active controller")
    pid = with_controllers.node_pid(active)
    penstock("cluster", "kill", "controller", "--signal", number, broker=with_controllers)
    wait_until(
        lambda: with_controllers.status()["controller"] not in (None, active),
        "another active controller",
        timeout_s=BACK_SECONDS_MAX,
    )
    with_controllers.wait_for_new_pid(active, pid, timeout_s=BACK_SECONDS_MAX)
    create(with_controllers, topic, replicas=2)
    write(with_controllers, topic, "a")
    assert read(with_controllers, topic, 1) == ["a"]


def test_a_leader_that_hangs_is_ended_and_returns(cluster: SupervisedCluster, topic: str) -> None:
    """Nobody asked for this pause, and clients with a request at that leader would wait for a minute."""
    create(cluster, topic)
    write(cluster, topic, "a")
    wait_in_sync(cluster, topic, {1, 2, 3})
    leader = partition(cluster, topic)["leader"]
    hanging = cluster.node_pid(leader)
    assert hanging is not None
    os.kill(hanging, signal.SIGSTOP)
    cluster.wait_for_new_pid(leader, hanging)
    write(cluster, topic, "b")
    wait_in_sync(cluster, topic, {1, 2, 3})
    assert read(cluster, topic, 2) == ["a", "b"]
    told = cluster.events("node_hung")[-1]
    assert told["nodes"] == [leader]
    assert told["cause"].startswith("its process was stopped for ")


def test_a_paused_broker_is_fenced_and_returns(cluster: SupervisedCluster, topic: str) -> None:
    create(cluster, topic)
    write(cluster, topic, "a")
    wait_in_sync(cluster, topic, {1, 2, 3})
    leader = partition(cluster, topic)["leader"]
    penstock("cluster", "kill", f"leader:{topic}", "--signal", "STOP", broker=cluster)
    wait_until(lambda: states(cluster)[leader] == "paused", "the paused broker")
    write(cluster, topic, "b")
    assert partition(cluster, topic)["leader"] != leader
    penstock("cluster", "kill", str(leader), "--signal", "CONT", broker=cluster)
    wait_in_sync(cluster, topic, {1, 2, 3})
    wait_until(lambda: states(cluster)[leader] == "running", "its return")
    assert read(cluster, topic, 2) == ["a", "b"]
