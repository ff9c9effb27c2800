"""Topics filled with a real client, for tests of what reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

if TYPE_CHECKING:
    from collections.abc import Iterable

REQUEST_S_MAX = 15.0
WRITER = {"log_level": 0, "acks": "all", "linger.ms": 0, "max.in.flight": 1}
"""In order without idempotence, for which librdkafka would wait half a second before it begins."""


def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def create_topic(bootstrap: str, topic: str, partitions: int = 1, **config: str) -> None:
    """Keyword names with underscores stand for Kafka's names with dots."""
    named = {name.replace("_", "."): value for name, value in config.items()}
    client = admin(bootstrap)
    (future,) = client.create_topics([NewTopic(topic, partitions, config=named)]).values()
    future.result(REQUEST_S_MAX)


def add_partitions(bootstrap: str, topic: str, total: int) -> None:
    client = admin(bootstrap)
    (future,) = client.create_partitions([NewPartitions(topic, total)]).values()
    future.result(REQUEST_S_MAX)


def delete_topic(bootstrap: str, topic: str) -> None:
    client = admin(bootstrap)
    (future,) = client.delete_topics([topic]).values()
    future.result(REQUEST_S_MAX)


def delete_records(bootstrap: str, topic: str, before: int, partition: int = 0) -> None:
    client = admin(bootstrap)
    (future,) = client.delete_records([TopicPartition(topic, partition, before)]).values()
    future.result(REQUEST_S_MAX)


def fill(bootstrap: str, topic: str, values: Iterable[bytes | None], **options: Any) -> None:
    """Writes each value; `options` go to `produce`, as `partition`, `key`, `headers` and `timestamp`."""
    fill_all(bootstrap, topic, ({"value": value, **options} for value in values))


def fill_all(bootstrap: str, topic: str, messages: Iterable[dict[str, Any]]) -> None:
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, **WRITER})
    for message in messages:
        producer.produce(topic, on_delivery=delivered, **message)
        producer.poll(0)
    assert producer.flush(REQUEST_S_MAX) == 0
    assert failures == []


def ensure_topic(bootstrap: str, topic: str, values: Iterable[bytes]) -> None:
    """A topic with just these values, written by the first test that needs it."""
    if topic not in admin(bootstrap).list_topics(timeout=REQUEST_S_MAX).topics:
        fill(bootstrap, topic, values)


def committed(bootstrap: str, group: str, *partitions: tuple[str, int]) -> list[int]:
    """The offsets of a group; -1001 where it has none."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    try:
        found = consumer.committed([TopicPartition(*partition) for partition in partitions], REQUEST_S_MAX)
        return [partition.offset for partition in found]
    finally:
        consumer.close()


def group_ids(bootstrap: str) -> list[str]:
    client = admin(bootstrap)  # kept until the answer is there: without it none comes
    return [each.group_id for each in client.list_consumer_groups().result(REQUEST_S_MAX).valid]


def delete_everything(bootstrap: str) -> None:
    """All topics and groups that users have made."""
    client = admin(bootstrap)
    names = [name for name in client.list_topics(timeout=REQUEST_S_MAX).topics if not name.startswith("__")]
    groups = group_ids(bootstrap)
    deleted = [*(client.delete_topics(names) if names else {}).values()]
    deleted += [*(client.delete_consumer_groups(groups) if groups else {}).values()]
    for each in deleted:
        each.result(REQUEST_S_MAX)
