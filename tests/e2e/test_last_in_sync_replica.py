"""The last in-sync replica loses its disk, or all stop without having synced: what the others have stays.

Real processes. The controller is a node of its own, so that no broker's disk is the metadata's.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import NewTopic

from penstock.storage import running_mark
from tests.support.cluster import Cluster, NodeProcess
from tests.support.commands import penstock
from tests.support.raw import RawClient, all_records, make_batch, read_all, split_batches
from tests.support.topics import admin
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS_MAX = 30.0
FIRST = [b"%03d" % number for number in range(20)]
LATER = [b"later %03d" % number for number in range(5)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("last"), brokers=3, controllers=1) as started:
        yield started


def filled_topic(cluster: Cluster, topic: str, **config: str) -> NodeProcess:
    """With the first values, on all three; its leader."""
    client = admin(cluster.bootstrap)
    client.create_topics([NewTopic(topic, 1, 3, config=config)])[topic].result(SECONDS_MAX)
    cluster.wait_healed([topic])
    leader = cluster.leader_of(topic)
    produce(leader, topic, FIRST)
    wait_until(
        lambda: len({node.log_bytes(topic) for node in cluster.brokers.values()}) == 1,
        "all replicas have everything",
    )
    return leader


def produce(leader: NodeProcess, topic: str, values: list[bytes]) -> None:
    with RawClient(leader.bootstrap) as client:
        for value in values:
            assert client.produce(topic, make_batch([value])).error_code.name == "none"


def consumed(cluster: Cluster, topic: str, count: int) -> list[bytes | None]:
    cluster.wait_healed([topic])
    leader = cluster.leader_of(topic)
    wait_until(lambda: leader.partition(topic).get("high_watermark") == count, "all of it is committed")
    with RawClient(leader.bootstrap) as client:
        return [record.value for _, batch in read_all(client, topic) for record in all_records(batch)]


def unclean_election(cluster: Cluster, topic: str) -> str:
    """Why the last leader of the topic was elected."""
    elected = [
        event["cause"]
        for event in cluster.events()
        if event["kind"] == "leader_elected" and event["topic"] == topic
    ]
    assert "not a clean election" in elected[-1]
    return str(elected[-1])


def test_an_empty_disk_is_not_elected_while_others_have_data(cluster: Cluster) -> None:
    topic = "wiped"
    leader = filled_topic(cluster, topic, **{"min.insync.replicas": "1"})
    others = [node for node in cluster.brokers.values() if node is not leader]
    for node in others:
        node.kill()
    cluster.wait_in_sync(topic, [leader.id])
    produce(leader, topic, LATER)  # which the others never get
    leader.kill()
    kept = others[0].log_bytes(topic)
    leader.wipe()
    cluster.start_again(leader, *others)
    wait_until(lambda: all(node.partition(topic).get("isr") == [] for node in others), "nobody is in sync")
    assert [node.log_bytes(topic) for node in others] == [kept, kept], "nothing that they have is deleted"

    told = penstock("cluster", "recover", topic, "--bootstrap", cluster.bootstrap, stdin="n\n")
    assert told.code != 0
    assert f"the log that ends at {len(FIRST)} would lead" in told.out
    rows = [line.split() for line in told.out.splitlines()]
    ends = {int(row[1]): int(row[4]) for row in rows if row[2:3] == ["alive"]}
    assert ends == {leader.id: 0} | {node.id: len(FIRST) for node in others}
    assert cluster.partition(topic)["isr"] == [], "who says no gets no election"

    told = penstock("cluster", "recover", topic, "--yes", "--json", "--bootstrap", cluster.bootstrap)
    (partition,) = json.loads("".join(told.lines))["partitions"]
    assert partition["recovered"]
    assert consumed(cluster, topic, len(FIRST)) == FIRST
    assert f"from offset {len(FIRST)} on may be lost" in unclean_election(cluster, topic)
    again = penstock("cluster", "recover", topic, "--yes", "--bootstrap", cluster.bootstrap)
    assert "nothing to recover" in again.out


def test_after_a_power_failure_of_all_the_longest_log_leads(cluster: Cluster) -> None:
    """Two have lost their ends. Whoever of them registers last is not taken for the best."""
    topic = "unsynced"
    leader = filled_topic(cluster, topic, flush="os")
    brokers = list(cluster.brokers.values())
    for node in brokers:
        node.pause()
    for node in brokers:
        node.kill()
        (node.data / running_mark.FILE).write_text("another-boot\n")
    others = [node for node in brokers if node is not leader]
    for lost, node in enumerate(others, 3):
        cut(node, topic, lost)
    cluster.start_again(leader)
    cluster.start_again(*others)
    assert consumed(cluster, topic, len(FIRST)) == FIRST
    cause = unclean_election(cluster, topic)
    assert "may lack their ends" in cause
    assert f"{leader.id} ends at {len(FIRST)}" in cause


def cut(node: NodeProcess, topic: str, count: int) -> None:
    """The last batches never reached the disk."""
    (segment,) = (node.data / f"{topic}-0").glob("*.log")
    data = segment.read_bytes()
    size = sum(header.size for header, _ in list(split_batches(data))[-count:])
    segment.write_bytes(data[: len(data) - size])


def test_a_topic_that_may_elects_by_itself(cluster: Cluster) -> None:
    topic = "available"
    config = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    leader = filled_topic(cluster, topic, **config)
    others = [node for node in cluster.brokers.values() if node is not leader]
    for node in others:
        node.kill()
    cluster.wait_in_sync(topic, [leader.id])
    leader.kill()
    cluster.start_again(*others)
    wait_until(lambda: others[0].leader_of(topic) in {node.id for node in others}, "one of them leads")
    assert "unclean.leader.election.enable is set" in unclean_election(cluster, topic)
    cluster.start_again(leader)
    assert consumed(cluster, topic, len(FIRST)) == FIRST
