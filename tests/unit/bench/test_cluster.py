from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from bench import cluster as cluster_module
from bench.cluster import BROKERS, Cluster, Node
from bench.measure import replicated
from bench.measure.failover import placed
from bench.measure.replicated import PLACEMENTS, check_replicated
from bench.process import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ONE = PLACEMENTS["1 partition"]
ALL = [set(BROKERS)]


def cluster_of(folder: Path, controllers: Mapping[int, int | None] | None = None) -> Cluster:
    """Nodes that have files and answers and no processes."""
    nodes = {
        node_id: Node(
            id=node_id, port=1, directory=folder / str(node_id), command=(), is_ready=lambda _: True
        )
        for node_id in BROKERS
    }
    known = controllers or {}
    return Cluster(
        name="cluster",
        version="1",
        directory=folder,
        nodes=nodes,
        ask_controller=lambda node: known.get(node.id),
    )


def write(cluster: Cluster, node_id: int, name: str, size: int) -> None:
    folder = cluster.nodes[node_id].data / "t-0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(bytes(size))


@pytest.fixture
def replicas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """30 bytes in two segments on every node, all in sync."""
    monkeypatch.setattr(replicated, "SAME_SECONDS_MAX", 0.0)
    monkeypatch.setattr(Cluster, "in_sync", lambda *_: ALL)
    cluster = cluster_of(tmp_path)
    for node_id in BROKERS:
        write(cluster, node_id, "0.log", 10)
        write(cluster, node_id, "1.log", 20)
        write(cluster, node_id, "1.index", node_id)
    return cluster


def test_replicas_with_the_same_logs_pass(replicas: Cluster) -> None:
    assert replicas.log_bytes("t", 1) == [{30}]
    check_replicated(replicas, "t", ONE, 30)


def test_a_follower_that_has_less_is_found(replicas: Cluster) -> None:
    write(replicas, 3, "1.log", 19)
    with pytest.raises(RuntimeError, match="replicas of t hold"):
        check_replicated(replicas, "t", ONE, 29)


def test_a_follower_without_the_partition_is_found(replicas: Cluster) -> None:
    for file in (replicas.nodes[2].data / "t-0").iterdir():
        file.unlink()
    with pytest.raises(RuntimeError, match="replicas of t hold"):
        check_replicated(replicas, "t", ONE, 30)


def test_logs_that_are_too_small_for_what_was_acknowledged_are_found(replicas: Cluster) -> None:
    with pytest.raises(RuntimeError, match="bytes of 31"):
        check_replicated(replicas, "t", ONE, 31)


def test_a_replica_out_of_sync_is_found(replicas: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cluster, "in_sync", lambda *_: [{1, 2}])
    with pytest.raises(RuntimeError, match="in sync on"):
        check_replicated(replicas, "t", ONE, 30)


def test_the_controller_is_the_one_that_all_nodes_name(tmp_path: Path) -> None:
    assert cluster_of(tmp_path, {1: 2, 2: 2, 3: 2}).active_controller() == 2


@pytest.mark.parametrize("answers", [{1: 2, 2: 2, 3: 3}, {1: 2, 2: 2, 3: None}])
def test_nodes_that_do_not_agree_have_no_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: dict[int, int | None]
) -> None:
    monkeypatch.setattr(cluster_module, "IN_SYNC_SECONDS_MAX", 0)
    with pytest.raises(UnavailableError, match="agree on a controller"):
        cluster_of(tmp_path, answers).active_controller()


@pytest.mark.parametrize("controller", BROKERS)
def test_the_leader_is_the_controller_only_where_it_should_be(controller: int) -> None:
    alone, both = (
        placed(controller, leader_is_controller=False),
        placed(controller, leader_is_controller=True),
    )
    assert sorted(alone) == sorted(both) == sorted(BROKERS)
    assert alone[0] != controller
    assert both[0] == controller


def test_every_broker_leads_its_share() -> None:
    for placement in PLACEMENTS.values():
        leaders = [replicas[0] for replicas in placement]
        assert len(set(leaders)) == len(placement)
        assert all(set(replicas) == set(BROKERS) for replicas in placement)
