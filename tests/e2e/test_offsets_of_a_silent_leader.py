"""Where a partition ends, asked while its leader says nothing: the next leader's answer, or an error.

librdkafka answers -1001 then, and no error. In a checkpoint of Spark that would end a stream for good.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaException, Message, TopicPartition
from confluent_kafka.admin import OffsetSpec

from penstock.client.kafka.cluster import Cluster as Brokers
from penstock.client.kafka.listed_offsets import list_offsets
from penstock.client.kafka.topic_clusters import TopicClusters
from penstock.spark.cluster import Cluster as SparkCluster
from penstock.spark.offsets import Partition
from penstock.spark.options import Connection
from penstock.traffic.log_reader import LogReader
from tests.support.load import create_replicated
from tests.support.topics import REQUEST_S_MAX, admin, fill

if TYPE_CHECKING:
    from tests.support.cluster import Cluster

PARTITIONS = 3
RECORDS = 7
SILENCE_S = 2.0
"""After which there is no answer."""


@pytest.fixture
def topic(shared_cluster: Cluster, topic: str) -> str:
    """Each of the brokers leads a partition of it."""
    create_replicated(shared_cluster.bootstrap, topic, PARTITIONS, 3)
    for index in range(PARTITIONS):
        fill(shared_cluster.bootstrap, topic, [b"x"] * RECORDS, partition=index)
    shared_cluster.wait_healed([topic])  # also for a broker that the test before has paused
    return topic


def test_a_stream_goes_on_with_the_next_leader(shared_cluster: Cluster, topic: str) -> None:
    partitions = [Partition(topic, index) for index in range(PARTITIONS)]
    ends = dict.fromkeys(partitions, RECORDS)
    asking = SparkCluster(Connection(shared_cluster.bootstrap, timeout_ms=60_000))
    assert asking.latest(partitions) == ends
    silent = shared_cluster.leader_of(topic, 1)
    silent.pause()
    try:
        assert asking.latest(partitions) == ends
    finally:
        silent.resume()


def test_a_topic_is_read_whole(shared_cluster: Cluster, topic: str) -> None:
    brokers = Brokers(shared_cluster.bootstrap, timeout_s=60.0)
    with closing(LogReader(brokers, TopicClusters(brokers))) as reader:
        assert len(reader.read(topic, Message.value)) == PARTITIONS * RECORDS
        silent = shared_cluster.leader_of(topic, 1)
        silent.pause()
        try:
            assert len(reader.read(topic, Message.value)) == PARTITIONS * RECORDS
        finally:
            silent.resume()


def test_a_client_that_talked_to_the_silent_one_last_asks_another(
    shared_cluster: Cluster, topic: str
) -> None:
    silent = shared_cluster.leader_of(topic, 1)
    brokers = Brokers(shared_cluster.bootstrap, timeout_s=30.0)
    for index in (0, 2, 1, 1):
        where = TopicPartition(topic, index)
        found = list_offsets(brokers.admin(), {where: OffsetSpec.latest()}, request_timeout=REQUEST_S_MAX)
        assert found[where].result().offset == RECORDS
    silent.pause()
    try:
        assert topic in brokers.ask(brokers.metadata, "what there is").topics
    finally:
        silent.resume()


def test_no_answer_is_an_error(shared_cluster: Cluster, topic: str) -> None:
    client = admin(shared_cluster.bootstrap)
    wanted = {TopicPartition(topic, index): OffsetSpec.latest() for index in range(PARTITIONS)}

    def ask(request_s: float) -> dict[int, int | KafkaException]:
        return {
            partition.partition: future.exception() or future.result().offset
            for partition, future in list_offsets(client, wanted, request_timeout=request_s).items()
        }

    # A new client on a busy machine may take long to get to know the cluster. After this it does.
    assert ask(REQUEST_S_MAX) == dict.fromkeys(range(PARTITIONS), RECORDS)
    silent = shared_cluster.leader_of(topic, 1)
    silent.pause()
    try:
        found = ask(SILENCE_S)
    finally:
        silent.resume()
    error = found.pop(1)
    assert isinstance(error, KafkaException)
    assert "no answer" in str(error)
    assert found == {0: RECORDS, 2: RECORDS}
