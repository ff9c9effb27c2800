"""Snapshots of the metadata between real nodes: whoever comes late gets what the log adds up to.

Every node takes a snapshot after a few records, and forgets what came before. Who was away for long, or has
lost its disk, finds that the log of the leader begins later than its own ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import ConfigResource, NewTopic, ResourceType

from tests.support.cluster import Cluster, NodeProcess
from tests.support.load import create_replicated
from tests.support.topics import REQUEST_S_MAX, admin, fill
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RECORDS = 40
SETTINGS = ["[cluster]", f"metadata_snapshot_records = {RECORDS}"]
LOADED = "metadata: loaded a snapshot"
CONFIG = {"retention.ms": "123456", "max.message.bytes": "654321"}
METADATA = "__cluster_metadata-0"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, brokers=3, settings=SETTINGS) as running:
        yield running


def make_history(cluster: Cluster, name: str) -> None:
    """Topics that stay, with configs, behind several times as many records as a snapshot holds."""
    client = admin(cluster.bootstrap)
    (kept,) = client.create_topics([NewTopic(name, 3, 2, config=CONFIG)]).values()
    kept.result(REQUEST_S_MAX)
    for number in range(3):
        names = [f"{name}-{number}-{index}" for index in range(4)]
        for created in client.create_topics([NewTopic(each, 10, 1) for each in names]).values():
            created.result(REQUEST_S_MAX)
        for deleted in client.delete_topics(names).values():
            deleted.result(REQUEST_S_MAX)


def described(node: NodeProcess, topic: str) -> dict[str, Any]:
    """The configs that were set for a topic, as this very node tells them."""
    client = admin(node.bootstrap)
    (future,) = client.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    configs = future.result(REQUEST_S_MAX)
    return {name: configs[name].value for name in CONFIG}


def topics_of(node: NodeProcess) -> dict[str, Any]:
    """Who holds and leads what, as this very node has it."""
    return {
        topic["name"]: [(each["leader"], each["replicas"], each["isr"]) for each in topic["partitions"]]
        for topic in node.status().get("topics", [])
    }


def wait_alike(cluster: Cluster, topics: set[str]) -> None:
    """All nodes say the same, and no more than should be there."""
    first, *others = cluster.brokers.values()
    cluster.wait_healed(topics)
    wait_until(
        lambda: (
            set(topics_of(first)) == topics and all(topics_of(each) == topics_of(first) for each in others)
        ),
        "the same on all nodes",
    )
    for node in cluster.brokers.values():
        for topic in topics:
            assert described(node, topic) == CONFIG


def wait_snapshots(cluster: Cluster) -> None:
    wait_until(
        lambda: all((node.data / METADATA / "snapshot").exists() for node in cluster.brokers.values()),
        "a snapshot on every node",
    )


def follower(cluster: Cluster) -> NodeProcess:
    """A node that is not the active controller."""
    active = cluster.active_controller()
    return next(node for node in cluster.brokers.values() if node is not active)


def voters_changed(cluster: Cluster, after: int) -> bool:
    return any(
        event["kind"] == "voters_changed" and event["offset"] > after
        for node in cluster.brokers.values()
        for event in node.events()
    )


@pytest.mark.parametrize("is_wiped", [False, True], ids=["lagging", "wiped"])
def test_a_node_that_was_away_for_long(cluster: Cluster, is_wiped: bool) -> None:
    make_history(cluster, "before")
    wait_snapshots(cluster)
    node = follower(cluster)
    node.kill()
    if is_wiped:
        node.wipe()
    make_history(cluster, "after")
    newest = cluster.last_event()
    node.start()
    assert LOADED in node.log
    wait_alike(cluster, {"before", "after"})
    if is_wiped:
        wait_until(lambda: voters_changed(cluster, newest), "its vote for the new disk")
    # It is a whole node again: with its help another one may be away.
    active = cluster.active_controller()
    active.kill()
    create_replicated(cluster.bootstrap, "later", 1, 2)
    assert "later" in topics_of(node)
    cluster.start_again(active)


def test_all_nodes_killed_and_started_again(cluster: Cluster) -> None:
    make_history(cluster, "before")
    wait_snapshots(cluster)
    fill(cluster.bootstrap, "before", [b"value"])
    cluster.wait_healed(["before"])
    cluster.kill_all()
    cluster.start_again(*cluster.brokers.values())
    wait_alike(cluster, {"before"})
    assert [node.log.count(LOADED) for node in cluster.brokers.values()] == [0, 0, 0], "each has its own"
    make_history(cluster, "after")
    wait_alike(cluster, {"before", "after"})


def test_a_damaged_snapshot_is_named_and_left_as_it_is(cluster: Cluster) -> None:
    make_history(cluster, "before")
    wait_snapshots(cluster)
    node = follower(cluster)
    node.kill()
    file = node.data / METADATA / "snapshot"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    node.spawn()
    assert node.wait() == 1
    (line,) = [line for line in node.log.splitlines() if line.startswith("penstock: ")]
    assert line == f"penstock: snapshot of {METADATA} is damaged"
    assert "Traceback" not in node.log
    assert file.read_bytes() == whole[: len(whole) // 2]
    make_history(cluster, "after")  # the others do without it
    file.write_bytes(whole)
    node.start()
    wait_alike(cluster, {"before", "after"})


def test_a_torn_tail_of_the_metadata_log(cluster: Cluster) -> None:
    """What a crash leaves of a batch that was never answered is cut, and fetched again."""
    make_history(cluster, "before")
    node = follower(cluster)
    node.kill()
    newest = max((node.data / METADATA).glob("*.log"))
    whole = newest.read_bytes()
    newest.write_bytes(whole + whole[-50:])
    make_history(cluster, "after")
    node.start()
    wait_alike(cluster, {"before", "after"})
