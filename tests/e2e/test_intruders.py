"""Nodes that a cluster must not take in, and nodes that cannot go on: each ends with one line that says why.

The cluster goes on meanwhile: no event in its log, no broker more, and writes are acknowledged.
"""

from __future__ import annotations

import shutil
import socket
from typing import TYPE_CHECKING

import pytest

from tests.support.cluster import Cluster, NodeProcess
from tests.support.exact_producer import ExactProducer, create_topic_in_sync
from tests.support.ports import free_port
from tests.support.raw import RawClient, make_batch
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("intruders"), brokers=3, controllers=3) as running:
        yield running


@pytest.fixture
def cluster(started: Cluster) -> Iterator[Cluster]:
    started.wait_healed([])
    yield started
    started.start_again(*started.nodes.values())
    started.wait_healed([])


@pytest.fixture
def intruder(cluster: Cluster, topic: str, tmp_path: Path) -> Iterator[NodeProcess]:
    """A broker that should not get in; the cluster that it wants to join goes on as before."""
    leader = create_topic_in_sync(cluster, topic)
    producer = ExactProducer(cluster, topic)
    producer.write(0, leader)
    newest = cluster.last_event()
    node = NodeProcess(tmp_path / "intruder", 9, ("broker",), free_port())
    try:
        yield node
        producer.write(1, leader)
        producer.check([0, 1])
        assert cluster.events(newest) == []
        assert {each["id"] for each in cluster.status()["brokers"]} == set(cluster.brokers)
    finally:
        node.kill()


def complaint(node: NodeProcess) -> str:
    """The line with which it ends."""
    assert node.wait() == 1, node.log
    (line,) = [line for line in node.log.splitlines() if line.startswith("penstock: ")]
    assert "Traceback" not in node.log
    return line


def test_a_wrong_cluster_id(cluster: Cluster, intruder: NodeProcess) -> None:
    intruder.configure(cluster.voters, ['cluster_id = "another"'])
    intruder.spawn()
    assert "belong to cluster another" in complaint(intruder)


def test_two_nodes_with_one_id(cluster: Cluster, intruder: NodeProcess) -> None:
    intruder.id = 1
    intruder.configure(cluster.voters)
    intruder.spawn()
    assert "another broker runs under the same id" in complaint(intruder)


@pytest.mark.parametrize(
    ("is_active", "words"),
    [(True, "refuses (another disk"), (False, "Does another process run under the same id?")],
)
def test_two_controllers_with_one_id(
    cluster: Cluster, intruder: NodeProcess, is_active: bool, words: str
) -> None:
    """Each has its own disk. The one that came later does not get the vote of the other."""
    active = cluster.active_controller()
    twin = next(each for each in cluster.controllers.values() if (each is active) is is_active)
    intruder.id, intruder.roles = twin.id, ("controller",)
    intruder.configure(cluster.voters)
    intruder.spawn()
    wait_until(lambda: words in intruder.log, "it says why it waits", timeout_s=30)
    assert cluster.active_controller() is active


def test_a_node_that_cannot_serve_does_not_join(cluster: Cluster, intruder: NodeProcess) -> None:
    """It would be given replicas, and end when it comes to listen."""
    with socket.create_server(("127.0.0.1", intruder.http_port)):
        intruder.configure(cluster.voters)
        intruder.spawn()
        assert f"cannot listen on 127.0.0.1:{intruder.http_port}" in complaint(intruder)


def test_two_nodes_in_one_folder(cluster: Cluster, intruder: NodeProcess) -> None:
    owner = cluster.brokers[1]
    intruder.id, intruder.data = owner.id, owner.data
    intruder.configure(cluster.voters)
    intruder.spawn()
    assert f"in use by process {owner.pid}" in complaint(intruder)


def test_a_node_from_another_cluster(cluster: Cluster, intruder: NodeProcess) -> None:
    """It has metadata, topics and messages of its own."""
    intruder.roles = ("broker", "controller")
    intruder.configure([])
    intruder.start()
    with RawClient(intruder.bootstrap) as client:
        client.create_topic("elsewhere")
        assert client.produce("elsewhere", make_batch([b"kept"])).error_code.name == "none"
    assert intruder.terminate() == 0
    before = intruder.log_bytes("elsewhere")
    intruder.roles = ("broker",)
    intruder.configure(cluster.voters)
    intruder.spawn()
    assert "cluster" in complaint(intruder)
    assert intruder.log_bytes("elsewhere") == before != b""


def test_a_controller_from_another_cluster(cluster: Cluster, intruder: NodeProcess) -> None:
    """In the place of one that is down, with its id and at its address."""
    newest_controller = cluster.active_controller()
    absent = next(each for each in cluster.controllers.values() if each is not newest_controller)
    absent.kill()
    intruder.id, intruder.roles = absent.id, ("broker", "controller")
    intruder.configure([])
    intruder.start()
    assert intruder.terminate() == 0
    intruder.roles, intruder.port = ("controller",), absent.port
    intruder.configure(cluster.voters)
    intruder.spawn()
    assert "cluster" in complaint(intruder)
    assert cluster.active_controller() is newest_controller
    absent.start()


def halve(path: Path) -> bytes:
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    return whole


@pytest.mark.parametrize(
    ("node_id", "name"), [(3, "meta.json"), (1003, "meta.json"), (1003, "__cluster_metadata-0/quorum-state")]
)
def test_a_half_written_file(cluster: Cluster, topic: str, node_id: int, name: str) -> None:
    """The node says which, and starts again once the file is whole; the others do without it meanwhile."""
    leader = create_topic_in_sync(cluster, topic)
    producer = ExactProducer(cluster, topic)
    producer.write(0, leader)
    node = cluster.nodes[node_id]
    node.kill()
    file = node.data / name
    whole = halve(file)
    node.spawn()
    assert f"{file.name}" in complaint(node)
    assert file.read_bytes() == whole[: len(whole) // 2], "what is left of it must stay"
    leader = cluster.leader_after(node, topic)
    producer.write(1, leader)
    file.write_bytes(whole)
    shutil.copy(file, f"{file}.tmp")
    halve(file.with_name(f"{file.name}.tmp"))  # what a crash while writing leaves, and nobody minds
    node.start()
    cluster.check_replicas(topic)
    producer.check([0, 1])
