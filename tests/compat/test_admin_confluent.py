"""Administration with confluent-kafka's AdminClient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from tests.support.raw import RECENT_MS, RawClient, make_batch
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

TIMEOUT = 15.0


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def results(futures: Mapping[Any, Future[Any]]) -> dict[Any, Any]:
    return {key: future.result(TIMEOUT) for key, future in futures.items()}


def error_of(futures: Mapping[Any, Future[Any]]) -> int:
    [future] = futures.values()
    with pytest.raises(KafkaException) as raised:
        future.result(TIMEOUT)
    return raised.value.args[0].code()


def create(admin: AdminClient, topic: str, partitions: int = 1, **config: str) -> None:
    configs = {name.replace("_", "."): value for name, value in config.items()}
    results(admin.create_topics([NewTopic(topic, partitions, 1, config=configs)]))
    wait_until(lambda: topic in admin.list_topics(timeout=TIMEOUT).topics, "the topic in metadata")


def test_create_list_and_delete_topics(admin: AdminClient, topic: str) -> None:
    create(admin, topic, 3)
    assert sorted(admin.list_topics(topic, TIMEOUT).topics[topic].partitions) == [0, 1, 2]
    assert error_of(admin.create_topics([NewTopic(topic, 1, 1)])) == KafkaError.TOPIC_ALREADY_EXISTS
    results(admin.delete_topics([topic]))
    wait_until(lambda: topic not in admin.list_topics(timeout=TIMEOUT).topics, "the end of the topic")
    assert error_of(admin.delete_topics([topic])) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_topic_of_the_same_name_is_another_topic(raw: RawClient, admin: AdminClient, topic: str) -> None:
    create(admin, topic)
    raw.produce(topic, make_batch([b"old"]))
    old_id = results(admin.describe_topics(TopicCollection([topic])))[topic].topic_id
    results(admin.delete_topics([topic]))
    wait_until(lambda: topic not in admin.list_topics(timeout=TIMEOUT).topics, "the end of the topic")
    create(admin, topic)
    wait_until(lambda: raw.list_offset(topic, -1).error_code.name == "none", "a leader")
    assert raw.end_offset(topic) == 0
    assert str(results(admin.describe_topics(TopicCollection([topic])))[topic].topic_id) != str(old_id)


def test_create_topics_validates(admin: AdminClient, topic: str) -> None:
    def code(new: NewTopic) -> int:
        return error_of(admin.create_topics([new]))

    assert code(NewTopic("no/slash", 1, 1)) == KafkaError.TOPIC_EXCEPTION
    assert code(NewTopic("x" * 250, 1, 1)) == KafkaError.TOPIC_EXCEPTION
    assert code(NewTopic("..", 1, 1)) == KafkaError.TOPIC_EXCEPTION
    assert code(NewTopic(topic, 1, 5)) == KafkaError.INVALID_REPLICATION_FACTOR
    assert code(NewTopic(topic, 0, 1)) == KafkaError.INVALID_PARTITIONS
    assert code(NewTopic(topic, 1, 1, config={"no.such.config": "1"})) == KafkaError.INVALID_CONFIG
    assert code(NewTopic(topic, 1, 1, config={"retention.ms": "soon"})) == KafkaError.INVALID_CONFIG
    assert code(NewTopic(topic, 1, 1, config={"cleanup.policy": "burn"})) == KafkaError.INVALID_CONFIG
    results(admin.create_topics([NewTopic(topic, 2, 1)], validate_only=True))
    assert topic not in admin.list_topics(timeout=TIMEOUT).topics


def test_topics_with_an_assignment(admin: AdminClient, topic: str) -> None:
    [broker] = admin.list_topics(timeout=TIMEOUT).brokers
    results(admin.create_topics([NewTopic(topic, 2, replica_assignment=[[broker], [broker]])]))
    wait_until(lambda: topic in admin.list_topics(timeout=TIMEOUT).topics, "the topic")
    assert len(admin.list_topics(topic, TIMEOUT).topics[topic].partitions) == 2


def test_describe_topics(admin: AdminClient, topic: str) -> None:
    create(admin, topic, 2)
    [described] = results(admin.describe_topics(TopicCollection([topic]))).values()
    assert (described.name, described.is_internal) == (topic, False)
    [broker] = admin.list_topics(timeout=TIMEOUT).brokers
    assert [partition.id for partition in described.partitions] == [0, 1]
    for partition in described.partitions:
        assert partition.leader.id == broker
        assert [node.id for node in partition.replicas] == [node.id for node in partition.isr] == [broker]
    unknown = admin.describe_topics(TopicCollection([f"{topic}-unknown"]))
    assert error_of(unknown) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_describe_cluster(admin: AdminClient, bootstrap: str) -> None:
    cluster = admin.describe_cluster().result(TIMEOUT)
    assert cluster.cluster_id
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [bootstrap]
    assert cluster.controller.id == cluster.nodes[0].id


def test_create_partitions(raw: RawClient, admin: AdminClient, topic: str) -> None:
    create(admin, topic, 2)
    results(admin.create_partitions([NewPartitions(topic, 5)]))
    wait_until(lambda: len(admin.list_topics(topic, TIMEOUT).topics[topic].partitions) == 5, "5 partitions")
    wait_until(lambda: raw.list_offset(topic, -1, partition=4).error_code.name == "none", "a leader")
    assert raw.produce(topic, make_batch([b"x"]), partition=4).base_offset == 0
    assert error_of(admin.create_partitions([NewPartitions(topic, 3)])) == KafkaError.INVALID_PARTITIONS
    assert error_of(admin.create_partitions([NewPartitions(topic, 5)])) == KafkaError.INVALID_PARTITIONS
    unknown = admin.create_partitions([NewPartitions(f"{topic}-unknown", 3)])
    assert error_of(unknown) == KafkaError.UNKNOWN_TOPIC_OR_PART


def described_configs(admin: AdminClient, topic: str) -> dict[str, ConfigEntry]:
    [entries] = results(admin.describe_configs([ConfigResource("topic", topic)])).values()
    return entries


def test_describe_configs(admin: AdminClient, topic: str) -> None:
    create(admin, topic, 1, retention_ms="12345", cleanup_policy="compact")
    entries = described_configs(admin, topic)
    assert entries["retention.ms"].value == "12345"
    assert entries["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert not entries["retention.ms"].is_default
    assert entries["cleanup.policy"].value == "compact"
    assert entries["max.message.bytes"].value == "1048588"
    assert entries["max.message.bytes"].is_default
    assert {"segment.bytes", "min.insync.replicas", "message.timestamp.type", "compression.type"} <= set(
        entries
    )
    unknown = admin.describe_configs([ConfigResource("topic", f"{topic}-unknown")])
    assert error_of(unknown) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_describe_broker_configs(admin: AdminClient) -> None:
    [broker] = admin.list_topics(timeout=TIMEOUT).brokers
    [entries] = results(admin.describe_configs([ConfigResource("broker", str(broker))])).values()
    assert {"log.retention.ms", "num.partitions", "auto.create.topics.enable"} <= set(entries)


def test_incremental_alter_configs(admin: AdminClient, topic: str) -> None:
    create(admin, topic, 1, retention_ms="12345", cleanup_policy="delete")

    def change(name: str, value: str | None, operation: AlterConfigOpType) -> None:
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource("topic", topic, incremental_configs=[entry])
        results(admin.incremental_alter_configs([resource]))

    def becomes(name: str, value: str) -> None:
        wait_until(lambda: described_configs(admin, topic)[name].value == value, f"{name}={value}")

    change("max.message.bytes", "5000", AlterConfigOpType.SET)
    becomes("max.message.bytes", "5000")
    becomes("retention.ms", "12345")
    change("retention.ms", None, AlterConfigOpType.DELETE)
    becomes("retention.ms", "604800000")
    change("cleanup.policy", "compact", AlterConfigOpType.APPEND)
    becomes("cleanup.policy", "delete,compact")
    change("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT)
    becomes("cleanup.policy", "compact")
    # No policy at all: nothing is removed, by age or by key.
    change("cleanup.policy", "compact", AlterConfigOpType.SUBTRACT)
    becomes("cleanup.policy", "")

    wrong = ConfigEntry("retention.ms", "soon", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource("topic", topic, incremental_configs=[wrong])
    assert error_of(admin.incremental_alter_configs([resource])) == KafkaError.INVALID_CONFIG


def test_altered_configs_take_effect(raw: RawClient, admin: AdminClient, topic: str) -> None:
    create(admin, topic)
    wait_until(lambda: raw.list_offset(topic, -1).error_code.name == "none", "a leader")
    assert raw.produce(topic, make_batch([bytes(2_000)])).error_code.name == "none"
    entry = ConfigEntry("max.message.bytes", "1000", incremental_operation=AlterConfigOpType.SET)
    results(admin.incremental_alter_configs([ConfigResource("topic", topic, incremental_configs=[entry])]))
    wait_until(
        lambda: raw.produce(topic, make_batch([bytes(2_000)])).error_code.name == "message_too_large",
        "the limit",
    )


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning", "ignore::DeprecationWarning")
def test_alter_configs_replaces_all(admin: AdminClient, topic: str) -> None:
    create(admin, topic, 1, retention_ms="12345")
    resource = ConfigResource("topic", topic, set_config={"max.message.bytes": "5000"})
    results(admin.alter_configs([resource]))
    wait_until(lambda: described_configs(admin, topic)["max.message.bytes"].value == "5000", "the change")
    assert described_configs(admin, topic)["retention.ms"].value == "604800000"


def test_delete_records(raw: RawClient, admin: AdminClient, topic: str) -> None:
    raw.create_topic(topic, partitions=2)
    for _ in range(5):
        raw.produce(topic, make_batch([b"a", b"b"]))
    # In the middle of a batch, which stays; its first record is just not offered any more.
    [deleted] = results(admin.delete_records([TopicPartition(topic, 0, 5)])).values()
    assert deleted.low_watermark == 5
    assert raw.list_offset(topic, -2).offset == 5
    assert raw.fetch(topic, 4, max_wait_ms=0).error_code.name == "offset_out_of_range"
    assert raw.fetch(topic, 5).error_code.name == "none"
    [deleted] = results(admin.delete_records([TopicPartition(topic, 0, -1)])).values()
    assert deleted.low_watermark == 10
    over = admin.delete_records([TopicPartition(topic, 0, 11)])
    assert error_of(over) == KafkaError.OFFSET_OUT_OF_RANGE
    assert raw.produce(topic, make_batch([b"next"])).base_offset == 10


def test_list_offsets(raw: RawClient, admin: AdminClient, topic: str) -> None:
    raw.create_topic(topic)
    start = RECENT_MS
    raw.produce(topic, make_batch([b"a", b"b"], timestamp=start + 5_000))
    raw.produce(topic, make_batch([b"c"], timestamp=start))

    def offset(spec: OffsetSpec) -> tuple[int, int]:
        [found] = results(admin.list_offsets({TopicPartition(topic, 0): spec})).values()
        return found.offset, found.timestamp

    assert offset(OffsetSpec.earliest()) == (0, -1)
    assert offset(OffsetSpec.latest()) == (3, -1)
    assert offset(OffsetSpec.max_timestamp())[1] == start + 5_000
    assert offset(OffsetSpec.for_timestamp(start + 1)) == (0, start + 5_000)


@pytest.fixture
def used_group(bootstrap: str, raw: RawClient, topic: str, group: str) -> str:
    """A group without members that has committed 2 for partition 0 and 0 for partition 1."""
    raw.create_topic(topic, partitions=2)
    raw.produce(topic, make_batch([b"a", b"b", b"c"]))
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    offsets = [TopicPartition(topic, 0, 2, "note"), TopicPartition(topic, 1, 0)]
    wait_until(lambda: committed(consumer, offsets), "a commit")
    consumer.close()
    return group


def committed(consumer: Consumer, offsets: list[TopicPartition]) -> bool:
    try:
        consumer.commit(offsets=offsets, asynchronous=False)
    except KafkaException as error:
        # Apache Kafka creates its offsets topic at the first use, and is not ready at once.
        if not error.args[0].retriable():
            raise
        return False
    return True


def test_list_and_describe_groups(admin: AdminClient, used_group: str) -> None:
    listed = admin.list_consumer_groups().result(TIMEOUT)
    assert not listed.errors
    [found] = [group for group in listed.valid if group.group_id == used_group]
    assert found.state == ConsumerGroupState.EMPTY
    [described] = results(admin.describe_consumer_groups([used_group])).values()
    assert (described.state, described.members) == (ConsumerGroupState.EMPTY, [])
    assert described.coordinator.id in admin.list_topics(timeout=TIMEOUT).brokers
    active = admin.list_consumer_groups(states={ConsumerGroupState.STABLE}).result(TIMEOUT)
    assert used_group not in [group.group_id for group in active.valid]


def group_offsets(admin: AdminClient, group: str) -> dict[int, int]:
    [answer] = results(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])).values()
    return {part.partition: part.offset for part in answer.topic_partitions}


def test_group_offsets(admin: AdminClient, topic: str, used_group: str) -> None:
    assert group_offsets(admin, used_group) == {0: 2, 1: 0}
    asked = ConsumerGroupTopicPartitions(used_group, [TopicPartition(topic, 0), TopicPartition(topic, 1)])
    [answer] = results(admin.list_consumer_group_offsets([asked])).values()
    assert [part.metadata or "" for part in answer.topic_partitions] == ["note", ""]
    altered = ConsumerGroupTopicPartitions(used_group, [TopicPartition(topic, 0, 1)])
    results(admin.alter_consumer_group_offsets([altered]))
    assert group_offsets(admin, used_group) == {0: 1, 1: 0}


def test_delete_groups(admin: AdminClient, topic: str, used_group: str) -> None:
    results(admin.delete_consumer_groups([used_group]))
    assert group_offsets(admin, used_group) == {}
    assert error_of(admin.delete_consumer_groups([used_group])) == KafkaError.GROUP_ID_NOT_FOUND
    listed = admin.list_consumer_groups().result(TIMEOUT)
    assert used_group not in [group.group_id for group in listed.valid]


def test_a_group_with_members(bootstrap: str, admin: AdminClient, topic: str, used_group: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": used_group, "client.id": "me"})
    consumer.subscribe([topic])
    try:
        assert wait_until(lambda: consumer.poll(0.2), "a message").value() == b"c"
        [described] = results(admin.describe_consumer_groups([used_group])).values()
        assert described.state == ConsumerGroupState.STABLE
        [member] = described.members
        assert member.client_id == "me"
        assigned = [(part.topic, part.partition) for part in member.assignment.topic_partitions]
        assert assigned == [(topic, 0), (topic, 1)]
        assert error_of(admin.delete_consumer_groups([used_group])) == KafkaError.NON_EMPTY_GROUP
        altered = ConsumerGroupTopicPartitions(used_group, [TopicPartition(topic, 0, 1)])
        [answer] = results(admin.alter_consumer_group_offsets([altered])).values()
        assert answer.topic_partitions[0].error.code() == KafkaError.UNKNOWN_MEMBER_ID
    finally:
        consumer.close()


def test_offsets_of_a_deleted_topic_go_with_it(admin: AdminClient, topic: str, used_group: str) -> None:
    results(admin.delete_topics([topic]))
    wait_until(lambda: not group_offsets(admin, used_group), "the end of the offsets")
