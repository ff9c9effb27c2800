"""Administration with kafka-python's KafkaAdminClient."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
from kafka.errors import (
    GroupIdNotFoundError,
    InvalidPartitionsError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from kafka.structs import OffsetAndMetadata

from tests.support.raw import DESCRIBE_LOG_DIRS, RECENT_MS, RawClient, make_batch
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

START = RECENT_MS


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def test_create_list_and_delete_topics(admin: KafkaAdminClient, topic: str) -> None:
    admin.create_topics({topic: {"num_partitions": 3, "configs": {"retention.ms": "1000"}}})
    admin.wait_for_topics([topic])
    assert topic in admin.list_topics()
    [described] = admin.describe_topics([topic])
    assert sorted(partition["partition_index"] for partition in described["partitions"]) == [0, 1, 2]
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([topic])
    admin.delete_topics([topic])
    wait_until(lambda: topic not in admin.list_topics(), "the end of the topic")
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([topic])


def test_topics_by_id(admin: KafkaAdminClient, topic: str) -> None:
    created = admin.create_topics([topic])["topics"][0]
    admin.wait_for_topics([topic])
    [by_name] = admin.describe_topics([topic])
    assert str(by_name["topic_id"]) == str(created["topic_id"])
    admin.delete_topics([uuid.UUID(str(by_name["topic_id"]))])
    wait_until(lambda: topic not in admin.list_topics(), "the end of the topic")


def test_create_partitions(admin: KafkaAdminClient, topic: str) -> None:
    admin.create_topics([topic])
    admin.wait_for_topics([topic])
    admin.create_partitions({topic: 4})
    wait_until(lambda: len(admin.describe_topics([topic])[0]["partitions"]) == 4, "4 partitions")
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({topic: 2})


def test_configs(admin: KafkaAdminClient, topic: str) -> None:
    admin.create_topics({topic: {"configs": {"retention.ms": "1000"}}})
    admin.wait_for_topics([topic])

    def modified() -> dict[str, str]:
        described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        [by_name] = described.values()
        return {name: entry["value"] for name, entry in by_name[topic].items()}

    assert modified()["retention.ms"] == "1000"
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"max.message.bytes": "5000"})])
    wait_until(lambda: modified().get("max.message.bytes") == "5000", "the change")
    assert modified()["retention.ms"] == "1000"
    admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, ["retention.ms"])])
    wait_until(lambda: "retention.ms" not in modified(), "the default")


def test_describe_cluster(admin: KafkaAdminClient, bootstrap: str) -> None:
    cluster = admin.describe_cluster()
    assert cluster["cluster_id"]
    [broker] = cluster["brokers"]
    assert f"{broker['host']}:{broker['port']}" == bootstrap
    assert cluster["controller_id"] == broker.get("broker_id", broker.get("node_id"))


def test_delete_records_and_list_offsets(raw: RawClient, admin: KafkaAdminClient, topic: str) -> None:
    raw.create_topic(topic)
    partition = TopicPartition(topic, 0)
    raw.produce(topic, make_batch([b"a", b"b", b"c"], timestamp=START, step_ms=1_000))

    def offset(spec: object) -> int:
        return admin.list_partition_offsets({partition: spec})[partition].offset

    assert offset(OffsetSpec.MAX_TIMESTAMP) == 2
    assert offset(START + 1) == 1
    admin.delete_records({partition: 2})
    assert (offset(OffsetSpec.EARLIEST), offset(OffsetSpec.LATEST)) == (2, 3)


def test_groups(raw: RawClient, bootstrap: str, admin: KafkaAdminClient, topic: str, group: str) -> None:
    raw.create_topic(topic, partitions=2)
    raw.produce(topic, make_batch([b"a", b"b", b"c"]))
    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    try:
        wait_until(lambda: consumer.poll(200), "messages")
        consumer.commit()
        described = admin.describe_groups([group])[group]
        assert described["group_state"] == "Stable"
        [member] = described["members"]
        assert member["client_host"].lstrip("/") == "127.0.0.1"
    finally:
        consumer.close()
    assert group in {listed["group_id"] for listed in admin.list_groups()}
    assert admin.describe_groups([group])[group]["group_state"] == "Empty"
    assert admin.list_group_offsets({group: [partition]})[group][partition].offset == 3
    admin.alter_group_offsets(group, {partition: OffsetAndMetadata(1, "moved", -1)})
    moved = admin.list_group_offsets({group: None})[group][partition]
    assert (moved.offset, moved.metadata) == (1, "moved")
    admin.delete_group_offsets(group, [partition])
    assert partition not in admin.list_group_offsets({group: None})[group]
    admin.delete_groups([group])
    assert group not in {listed["group_id"] for listed in admin.list_groups()}
    with pytest.raises(GroupIdNotFoundError):
        admin.delete_group_offsets(group, [partition])


def test_log_dirs(raw: RawClient, admin: KafkaAdminClient, topic: str) -> None:
    raw.create_topic(topic)
    batch = make_batch([bytes(10_000)])
    for _ in range(3):
        raw.produce(topic, batch)
    described = admin.describe_log_dirs({topic: [0]})
    sizes = [
        partition["partition_size"]
        for broker in described
        for folder in broker["log_dirs"]
        for entry in folder["topics"]
        for partition in entry["partitions"]
    ]
    assert sizes == [3 * len(batch)]
    for version in range(1, 5):
        body = {"topics": [{"topic": topic, "partitions": [0]}]}
        answer = raw.request(DESCRIBE_LOG_DIRS, version, body)
        assert answer.results[0].topics[0].partitions[0].partition_size == 3 * len(batch)
