"""A replica that comes back with less than others count on says so, and is filled up before it counts again.

All nodes are killed at once, so that each is still in sync as far as the metadata says. Then the files of one
follower are changed as a failing disk or a loss of power would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import NewTopic

from penstock.storage import running_mark
from penstock.storage.blobs import unseal
from tests.support.cluster import Cluster, NodeProcess
from tests.support.raw import RawClient, all_records, make_batch, read_all, split_batches
from tests.support.topics import admin
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

VALUES = [b"%04d" % number * 25 for number in range(50)]
SECONDS_MAX = 30.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("lost")
    with Cluster(folder, brokers=3, settings=["high_watermark_checkpoint_ms = 100"]) as started:
        yield started


def filled_topic(cluster: Cluster, topic: str, **config: str) -> NodeProcess:
    """A topic with a batch for each value, in sync on all three; a follower of it."""
    client = admin(cluster.bootstrap)
    config["min.insync.replicas"] = "3"  # so that none leaves the set just because it starts after the others
    client.create_topics([NewTopic(topic, 1, 3, config=config)])[topic].result(SECONDS_MAX)
    cluster.wait_healed([topic])
    leader = cluster.leader_of(topic)
    with RawClient(leader.bootstrap) as client:
        for value in VALUES:
            assert client.produce(topic, make_batch([value])).error_code.name == "none"
    wait_until(
        lambda: len({node.log_bytes(topic) for node in cluster.brokers.values()}) == 1,
        "all replicas have everything",
    )
    return next(node for node in cluster.brokers.values() if node is not leader)


def stop_at_once(cluster: Cluster) -> None:
    """None has the time to notice that another one is gone."""
    for node in cluster.nodes.values():
        node.pause()
    for node in cluster.nodes.values():
        node.kill()


def batch_starts(node: NodeProcess, topic: str) -> list[int]:
    position, starts = 0, []
    for header, _ in split_batches(node.log_bytes(topic)):
        starts.append(position)
        position += header.size
    return starts


def check_healed(cluster: Cluster, node: NodeProcess, topic: str, reason: str) -> None:
    """It has said why it was not to be counted on, and has all that the others have."""
    cluster.start_again(*cluster.nodes.values())
    cluster.wait_healed([topic])
    assert f"{topic}-0 may lack what was committed: {reason}" in node.log
    left = [
        event
        for event in cluster.events()
        if event["kind"] == "isr_shrunk" and event["topic"] == topic and event["nodes"] == [node.id]
    ]
    assert any("clean" in event["cause"] for event in left), left
    wait_until(
        lambda: node.log_bytes(topic) == cluster.leader_of(topic).log_bytes(topic),
        "the replica is filled up",
    )
    leader = cluster.leader_of(topic)
    wait_until(
        lambda: leader.partition(topic).get("high_watermark") == len(VALUES),
        "a leader that knows what is committed",
    )
    with RawClient(leader.bootstrap) as client:
        records = [record for _, batch in read_all(client, topic) for record in all_records(batch)]
    assert [record.value for record in records] == VALUES


def test_a_damaged_end_is_given_up_when_others_have_it(cluster: Cluster) -> None:
    node = filled_topic(cluster, "damaged")
    start = batch_starts(node, "damaged")[-10]
    stop_at_once(cluster)
    (segment,) = (node.data / "damaged-0").glob("*.log")
    data = bytearray(segment.read_bytes())
    data[start + 70] ^= 0xFF
    segment.write_bytes(data)
    check_healed(cluster, node, "damaged", f"{segment} is damaged at byte {start}")


def test_an_end_before_the_high_watermark_is_noticed(cluster: Cluster) -> None:
    node = filled_topic(cluster, "short")
    checkpoint = node.data / "high-watermarks"
    wait_until(
        lambda: unseal(checkpoint.read_bytes()).get("short-0", [0, 0])[1] == len(VALUES),
        "a checkpoint of the end",
    )
    start = batch_starts(node, "short")[-10]
    stop_at_once(cluster)
    (segment,) = (node.data / "short-0").glob("*.log")
    segment.write_bytes(segment.read_bytes()[:start])
    end = len(VALUES) - 10
    reason = f"it ends at offset {end}, and {len(VALUES)} was the high watermark"
    check_healed(cluster, node, "short", reason)


def test_a_topic_that_is_not_synced_does_not_count_after_the_machine_was_started_anew(
    cluster: Cluster,
) -> None:
    node = filled_topic(cluster, "unsynced", flush="os")
    stop_at_once(cluster)
    (node.data / running_mark.FILE).write_text("another-boot\n")
    check_healed(cluster, node, "unsynced", "it was not synced when the machine stopped")
