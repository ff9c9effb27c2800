"""A broker more: it joins a cluster at work, takes over replicas, and has all that was acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.cluster import Cluster, NodeProcess
from tests.support.kafka_python import reassign
from tests.support.load import create_replicated, under_load
from tests.support.ports import free_port
from tests.support.supervised import SupervisedCluster
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from pathlib import Path

TOPIC = "orders"
PARTITIONS, REPLICAS = 4, 3
NEW = 4
MOVED_S_MAX = 60.0
TARGETS = {0: [4, 1, 2], 1: [2, 4, 3], 2: [3, 1, 4], 3: [4, 3, 1]}
"""The new broker leads two partitions, follows in the others, and takes the place of each of the old ones."""


def partitions_of(status: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = next(
        (topic["partitions"] for topic in status.get("topics", []) if topic["name"] == TOPIC), []
    )
    return found


def wait_moved(cluster: Cluster | SupervisedCluster) -> None:
    """Where the replicas should be, and all in sync."""

    def is_there() -> bool:
        partitions = partitions_of(cluster.status())
        return bool(partitions) and all(
            each["replicas"] == TARGETS[each["partition"]] and set(each["isr"]) == set(each["replicas"])
            for each in partitions
        )

    wait_until(is_there, "the replicas on their new brokers", timeout_s=MOVED_S_MAX)


def states(cluster: Cluster | SupervisedCluster) -> dict[int, str]:
    return {broker["id"]: broker["state"] for broker in cluster.status().get("brokers", [])}


def test_a_stopped_cluster_starts_with_a_broker_more(tmp_path: Path) -> None:
    """Its clients wait, and go on."""
    with SupervisedCluster(tmp_path, brokers=3) as cluster:
        create_replicated(cluster.bootstrap, TOPIC, PARTITIONS, REPLICAS)
        with under_load(cluster.bootstrap, TOPIC, PARTITIONS) as load:
            assert cluster.terminate() == 0
            cluster.options = ("--brokers", "4")
            cluster.start()
            wait_until(lambda: states(cluster) == dict.fromkeys((1, 2, 3, 4), "running"), "four brokers")
            load.goes_on()
            reassign(cluster.bootstrap, TOPIC, TARGETS)
            wait_moved(cluster)
            load.goes_on()


def test_a_node_joins_a_running_cluster(tmp_path: Path) -> None:
    with Cluster(tmp_path, brokers=3) as cluster:
        create_replicated(cluster.bootstrap, TOPIC, PARTITIONS, REPLICAS)
        known = cluster.bootstrap
        new = NodeProcess(tmp_path / f"node-{NEW}", NEW, ("broker",), free_port())
        new.configure(cluster.voters)
        try:
            with under_load(known, TOPIC, PARTITIONS) as load:
                new.start()
                cluster.brokers[NEW] = cluster.nodes[NEW] = new
                wait_until(lambda: states(cluster).get(NEW) == "running", "the new broker in service")
                reassign(known, TOPIC, TARGETS)
                wait_moved(cluster)
                load.goes_on()
                # What it has counts: another one may die, and the new broker is needed for the majority.
                cluster.brokers[2].kill()
                load.goes_on()
                cluster.brokers[2].start()
                cluster.wait_healed([TOPIC], timeout_s=MOVED_S_MAX)
        finally:
            new.kill()
