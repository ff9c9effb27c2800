"""Controllers that lose their disks: what the others know stays, and so does what the brokers hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.storage.cluster_ids import new_cluster_id
from tests.support.cluster import Cluster, NodeProcess
from tests.support.commands import penstock
from tests.support.exact_producer import ExactProducer, create_topic_in_sync
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from pathlib import Path

SECONDS_MAX = 30.0


def test_two_that_are_wiped_wait_until_somebody_goes_on_with_the_third(tmp_path: Path, topic: str) -> None:
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

        go_on_with(survivor)
        # The metadata say that the two were in sync last. That the third has enough is for somebody to say.
        for node in cluster.nodes.values():
            node.wait_ready(timeout_s=SECONDS_MAX)
        wait_until(lambda: survivor.partition(topic).get("isr") == [], "nobody is in sync")
        told = penstock("cluster", "recover", topic, "--yes", "--bootstrap", cluster.bootstrap)
        assert "1 partition of" in "".join(told.lines)
        # The others get the metadata and their seats again, and their replicas what the survivor has.
        cluster.wait_healed([topic])
        assert survivor.log_bytes(topic)[: len(kept)] == kept
        cluster.check_replicas(topic)
        survivor.kill()
        wait_until(
            lambda: {cluster.brokers[number].leader_of(topic) for number in (1, 2)} <= {1, 2},
            "the two others are a majority again",
            timeout_s=SECONDS_MAX,
        )


def go_on_with(survivor: NodeProcess) -> None:
    """As its log says."""
    assert "penstock cluster recover controllers" in survivor.log
    recover = ("cluster", "recover", "controllers", "--config", str(survivor.file))
    assert "must not run meanwhile" in penstock(*recover).complaint
    survivor.kill()
    metadata = survivor.log_bytes("__cluster_metadata")
    asked = penstock(*recover, stdin="n\n")
    assert asked.code != 0
    assert "and 3 brokers" in asked.out
    assert survivor.log_bytes("__cluster_metadata") == metadata, "who says no changes nothing"
    assert "is the only controller now" in penstock(*recover, "--yes").out
    survivor.spawn()
