"""Positions, committed offsets and producing with kafka-python."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import kafka
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError
from kafka.structs import OffsetAndMetadata

from tests.support.raw import RECENT_MS, RawClient, make_batch
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

START = RECENT_MS
TIMEOUT = 60.0
SESSION_MS = 6_000
"""A member of which its client lost track, on a busy machine, is waited for as long as this."""


@pytest.fixture
def topic(raw: RawClient, topic: str) -> str:
    """Two partitions; the first with "0" … "9" in batches of two, ten seconds apart."""
    raw.create_topic(topic, partitions=2)
    for index in range(0, 10, 2):
        batch = make_batch(
            [b"%d" % index, b"%d" % (index + 1)], timestamp=START + index * 10_000, step_ms=10_000
        )
        raw.produce(topic, batch)
    return topic


@pytest.fixture
def make_consumer(bootstrap: str, group: str) -> Iterator[Callable[..., KafkaConsumer]]:
    consumers = []

    def make(**options: object) -> KafkaConsumer:
        config = {
            "bootstrap_servers": bootstrap,
            "group_id": group,
            "enable_auto_commit": False,
            "session_timeout_ms": SESSION_MS,
            **options,
        }
        consumers.append(KafkaConsumer(**config))
        return consumers[-1]

    yield make
    for consumer in consumers:
        consumer.close()


@pytest.fixture
def make_producer(bootstrap: str) -> Iterator[Callable[..., KafkaProducer]]:
    producers = []

    def make(**options: object) -> KafkaProducer:
        producers.append(KafkaProducer(bootstrap_servers=bootstrap, **options))
        return producers[-1]

    yield make
    for producer in producers:
        producer.close()


def read(consumer: KafkaConsumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    deadline = time.monotonic() + TIMEOUT
    while len(values) < count:
        assert time.monotonic() < deadline, values
        for messages in consumer.poll(200, max_records=count - len(values)).values():
            values += [message.value for message in messages]
    return values


def test_seek(topic: str, make_consumer: Callable[..., KafkaConsumer]) -> None:
    consumer = make_consumer()
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    assert read(consumer, 3) == [b"0", b"1", b"2"]
    consumer.seek(partition, 7)
    assert read(consumer, 2) == [b"7", b"8"]
    assert consumer.position(partition) == 9
    consumer.seek_to_end(partition)
    assert consumer.position(partition) == 10


def test_seek_by_time(topic: str, make_consumer: Callable[..., KafkaConsumer]) -> None:
    consumer = make_consumer()
    partition = TopicPartition(topic, 0)

    def offset_at(timestamp: int) -> tuple[int, int] | None:
        found = consumer.offsets_for_times({partition: timestamp})[partition]
        return None if found is None else (found.offset, found.timestamp)

    assert offset_at(START - 1) == (0, START)
    assert offset_at(START + 1) == (1, START + 10_000)
    assert offset_at(START + 30_000) == (3, START + 30_000)
    assert offset_at(START + 90_001) is None
    consumer.assign([partition])
    consumer.seek(partition, offset_at(START + 45_000)[0])
    assert read(consumer, 5) == [b"5", b"6", b"7", b"8", b"9"]


def test_beginning_and_end(topic: str, make_consumer: Callable[..., KafkaConsumer]) -> None:
    consumer = make_consumer()
    partitions = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    assert consumer.beginning_offsets(partitions) == {partitions[0]: 0, partitions[1]: 0}
    assert consumer.end_offsets(partitions) == {partitions[0]: 10, partitions[1]: 0}
    assert consumer.partitions_for_topic(topic) == {0, 1}


def test_pause_and_resume(raw: RawClient, topic: str, make_consumer: Callable[..., KafkaConsumer]) -> None:
    consumer = make_consumer(auto_offset_reset="earliest")
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    consumer.assign([first, second])
    consumer.pause(first)
    raw.produce(topic, make_batch([b"flows"]), partition=1)
    assert read(consumer, 1) == [b"flows"]
    assert consumer.poll(300) == {}
    consumer.resume(first)
    assert read(consumer, 10)[-1] == b"9"


def test_committed_offsets_and_metadata(topic: str, make_consumer: Callable[..., KafkaConsumer]) -> None:
    consumer = make_consumer()
    partition = TopicPartition(topic, 0)
    assert consumer.committed(partition) is None
    consumer.assign([partition])
    consumer.commit({partition: OffsetAndMetadata(4, "said ü", -1)})
    other = make_consumer()
    assert other.committed(partition) == 4
    assert other.committed(partition, metadata=True).metadata == "said ü"
    assert other.committed(TopicPartition(topic, 1)) is None


def test_a_group_goes_on_where_it_committed(topic: str, make_consumer: Callable[..., KafkaConsumer]) -> None:
    consumer = make_consumer(auto_offset_reset="earliest")
    consumer.subscribe([topic])
    assert read(consumer, 4) == [b"0", b"1", b"2", b"3"]
    consumer.commit()
    consumer.close()
    again = make_consumer(auto_offset_reset="earliest")
    again.subscribe([topic])
    assert read(again, 2) == [b"4", b"5"]


def test_offset_out_of_range(topic: str, make_consumer: Callable[..., KafkaConsumer]) -> None:
    consumer = make_consumer(auto_offset_reset="none")
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 1_000)
    with pytest.raises(OffsetOutOfRangeError):
        wait_until(lambda: consumer.poll(200), "the error")


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_acks(
    raw: RawClient, topic: str, make_producer: Callable[..., KafkaProducer], acks: int | str
) -> None:
    producer = make_producer(acks=acks, enable_idempotence=acks == "all")
    sent = [producer.send(topic, b"%d" % index, partition=1) for index in range(500)]
    for future in sent:
        future.get(TIMEOUT)
    wait_until(lambda: raw.end_offset(topic, partition=1) == 500, "all messages")


def test_messages_over_the_limit_are_refused(
    raw: RawClient, topic: str, make_producer: Callable[..., KafkaProducer]
) -> None:
    limited = f"{topic}-limited"
    raw.create_topic(limited, configs={"max.message.bytes": "20000"})
    producer = make_producer()
    assert producer.send(limited, bytes(19_000)).get(TIMEOUT).offset == 0
    with pytest.raises(MessageSizeTooLargeError):
        producer.send(limited, bytes(21_000)).get(TIMEOUT)
    assert raw.end_offset(limited) == 1


def test_the_version_that_is_inferred(bootstrap: str) -> None:
    """kafka-python derives a broker version from what is advertised, and from it what it may use."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        assert consumer.config["api_version"] >= (2, 8)
    finally:
        consumer.close()
    assert kafka.__version__.startswith("3.")
