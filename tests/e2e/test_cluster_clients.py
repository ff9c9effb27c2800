"""What clients of Kafka can ask of a cluster, and of no single broker: reading near by, moving leadership."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import ElectionType, TopicPartition

from tests.support.cluster import RACKS
from tests.support.kafka_python import TopicPartition as KafkaTopicPartition
from tests.support.kafka_python import kafka_python_admin
from tests.support.load import create_replicated
from tests.support.nearby_consumer import NearbyConsumer
from tests.support.topics import REQUEST_S_MAX, admin, fill
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from tests.support.cluster import Cluster

VALUES = [b"%d" % number for number in range(500)]


@pytest.fixture
def replicated(shared_cluster: Cluster, topic: str) -> str:
    """A topic of one partition that all three brokers have in sync."""
    create_replicated(shared_cluster.bootstrap, topic, 1, 3)
    fill(shared_cluster.bootstrap, topic, VALUES)
    shared_cluster.wait_in_sync(topic, {1, 2, 3})
    return topic


@pytest.mark.parametrize("place", [1, 2])
def test_reading_from_a_follower_near_by(shared_cluster: Cluster, replicated: str, place: int) -> None:
    leader = shared_cluster.leader_of(replicated).id
    near = (leader - 1 + place) % 3 + 1
    consumer = NearbyConsumer(shared_cluster.bootstrap, replicated, RACKS[near - 1])
    try:
        wait_until(lambda: consumer.fetches().get(near, 0) > 5, "fetches from the follower")
        wait_until(lambda: consumer.poll() or len(consumer.values) >= len(VALUES), "all messages")
        assert consumer.values == VALUES
        before = consumer.fetches()
        fill(shared_cluster.bootstrap, replicated, [b"new"])
        wait_until(lambda: consumer.fetches()[near] > before[near] + 5, "more of them")
        assert consumer.values == [*VALUES, b"new"]
        # The leader was asked where to read, and not much more.
        assert consumer.fetches().get(leader, 0) <= before.get(leader, 0) + 1
    finally:
        consumer.close()


def test_a_consumer_whose_follower_dies_goes_on_with_the_leader(
    shared_cluster: Cluster, replicated: str
) -> None:
    leader = shared_cluster.leader_of(replicated).id
    near = shared_cluster.brokers[leader % 3 + 1]
    consumer = NearbyConsumer(shared_cluster.bootstrap, replicated, RACKS[near.id - 1])
    try:
        wait_until(lambda: consumer.fetches().get(near.id, 0) > 5, "fetches from the follower")
        near.kill()
        fill(shared_cluster.bootstrap, replicated, [b"new"])
        wait_until(lambda: consumer.poll() or b"new" in consumer.values, "what came after its death")
        assert consumer.values == [*VALUES, b"new"]
    finally:
        consumer.close()
        shared_cluster.start_again(near)
        shared_cluster.wait_healed([replicated])


def test_a_rack_without_brokers_reads_from_the_leader(shared_cluster: Cluster, replicated: str) -> None:
    consumer = NearbyConsumer(shared_cluster.bootstrap, replicated, "elsewhere")
    try:
        wait_until(lambda: consumer.poll() or len(consumer.values) >= len(VALUES), "all messages")
        assert consumer.values == VALUES
        wait_until(lambda: consumer.fetches(), "statistics")
        assert list(consumer.fetches()) == [shared_cluster.leader_of(replicated).id]
    finally:
        consumer.close()


# Leadership


def unseat(cluster: Cluster, topic: str) -> int:
    """The preferred leader, which is alive and in sync and does not lead."""
    preferred = cluster.leader_of(topic)
    assert cluster.partition(topic)["replicas"][0] == preferred.id
    preferred.kill()
    wait_until(lambda: cluster.partition(topic)["leader"] not in (None, preferred.id), "another leader")
    cluster.start_again(preferred)
    cluster.wait_healed([topic])
    assert cluster.leader_of(topic) is not preferred
    return preferred.id


def test_preferred_leaders_by_confluent_kafka(shared_cluster: Cluster, replicated: str) -> None:
    preferred = unseat(shared_cluster, replicated)
    client = admin(shared_cluster.bootstrap)
    partition = TopicPartition(replicated, 0)
    answer = client.elect_leaders(ElectionType.PREFERRED, [partition]).result(REQUEST_S_MAX)
    assert answer == {partition: None}
    wait_until(lambda: shared_cluster.partition(replicated)["leader"] == preferred, "the preferred leader")
    again = client.elect_leaders(ElectionType.PREFERRED, [partition]).result(REQUEST_S_MAX)
    assert "ELECTION_NOT_NEEDED" in str(again[partition])
    fill(shared_cluster.bootstrap, replicated, [b"new"])


def test_preferred_leaders_by_kafka_python(shared_cluster: Cluster, replicated: str) -> None:
    preferred = unseat(shared_cluster, replicated)
    with kafka_python_admin(shared_cluster.bootstrap) as client:
        client.elect_leaders(0, {replicated: [0]})
    wait_until(lambda: shared_cluster.partition(replicated)["leader"] == preferred, "the preferred leader")
    fill(shared_cluster.bootstrap, replicated, [b"new"])


def test_reassignment_by_kafka_python(shared_cluster: Cluster, topic: str) -> None:
    """From one broker to the two others, then a move that is cancelled because its target is down."""
    create_replicated(shared_cluster.bootstrap, topic, 1, 1)
    fill(shared_cluster.bootstrap, topic, VALUES)
    (first,) = shared_cluster.partition(topic)["replicas"]
    second, third = first % 3 + 1, (first + 1) % 3 + 1
    partition = KafkaTopicPartition(topic, 0)
    try:
        with kafka_python_admin(shared_cluster.bootstrap) as client:
            assert client.alter_partition_reassignments({partition: [second, third]}) == {partition: None}
            wait_until(lambda: shared_cluster.partition(topic)["replicas"] == [second, third], "the move")
            shared_cluster.wait_in_sync(topic, {second, third})
            # Whoever is asked may hear of it a moment later.
            wait_until(lambda: client.list_partition_reassignments() == {}, "no move under way")
        shared_cluster.brokers[first].kill()
        wait_until(lambda: len(alive(shared_cluster)) == 2, "one broker fewer")
        # Another client: this one's controller may be the broker that is gone, and it does not look again.
        left = ",".join(shared_cluster.brokers[each].bootstrap for each in (second, third))
        with kafka_python_admin(left) as client:
            assert client.alter_partition_reassignments({partition: [second, first]}) == {partition: None}
            moves = wait_until(client.list_partition_reassignments, "the broker that is asked knows it")
            assert moves[partition]["adding_replicas"] == [first]
            assert client.alter_partition_reassignments({partition: None}) == {partition: None}
            assert client.list_partition_reassignments() == {}
            wait_until(lambda: shared_cluster.partition(topic)["replicas"] == [second, third], "its end")
    finally:
        shared_cluster.start_again(shared_cluster.brokers[first])
    fill(shared_cluster.bootstrap, topic, [b"new"])


def alive(cluster: Cluster) -> list[int]:
    return [broker["id"] for broker in cluster.status()["brokers"] if broker["state"] == "running"]
