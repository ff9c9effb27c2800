"""Controllers that lose their disks: what the others know stays, and so does what the brokers hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.storage.cluster_ids import new_cluster_id
from tests.support.cluster import Cluster
from tests.support.exact_producer import ExactProducer, create_topic_in_sync
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from pathlib import Path

SECONDS_MAX = 30.0


def test_two_of_three_that_are_wiped_do_not_begin_anew_beside_the_third(tmp_path: Path, topic: str) -> None:
    """All of them are told which cluster they are of, as those of `penstock up` are."""
    settings = [f'cluster_id = "{new_cluster_id()}"']
    with Cluster(tmp_path, brokers=3, settings=settings) as cluster:
        leader = create_topic_in_sync(cluster, topic)
        ExactProducer(cluster, topic).write(0, leader)
        survivor = cluster.brokers[3]
        wait_until(lambda: survivor.log_bytes(topic) == leader.log_bytes(topic), "it has everything")
        cluster.kill_all()
        kept = survivor.log_bytes(topic)
        metadata = survivor.log_bytes("__cluster_metadata")
        assert kept
        for number in (1, 2):
            cluster.brokers[number].wipe()
        for node in cluster.nodes.values():
            node.spawn()
        for node in cluster.nodes.values():
            wait_until(
                lambda node=node: "no leader for" in node.log,  # type: ignore[misc]
                f"node {node.id} says that it waits",
                timeout_s=SECONDS_MAX,
            )
        assert "1 refuses" in survivor.log
        assert survivor.log_bytes(topic) == kept
        assert survivor.log_bytes("__cluster_metadata") == metadata
