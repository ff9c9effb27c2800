"""Positions and committed offsets with confluent-kafka."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.support.raw import RECENT_MS, RawClient, make_batch
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

START = RECENT_MS
TIMEOUT = 15.0


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
def make_consumer(bootstrap: str, group: str) -> Iterator[Callable[..., Consumer]]:
    consumers = []

    def make(**options: object) -> Consumer:
        config = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
        config |= {name.replace("_", "."): value for name, value in options.items()}
        consumers.append(Consumer(config))
        return consumers[-1]

    yield make
    for consumer in consumers:
        consumer.close()


def read(consumer: Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    deadline = time.monotonic() + TIMEOUT
    while len(values) < count:
        assert time.monotonic() < deadline, values
        message = consumer.poll(0.2)
        if message is not None:
            assert message.error() is None, message.error()
            values.append(message.value())
    return values


def test_seek(topic: str, make_consumer: Callable[..., Consumer]) -> None:
    consumer = make_consumer()
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    assert read(consumer, 3) == [b"0", b"1", b"2"]
    consumer.seek(TopicPartition(topic, 0, 7))
    assert read(consumer, 2) == [b"7", b"8"]
    assert consumer.position([TopicPartition(topic, 0)])[0].offset == 9
    consumer.seek(TopicPartition(topic, 0, OFFSET_BEGINNING))
    assert read(consumer, 1) == [b"0"]


def test_seek_by_time(topic: str, make_consumer: Callable[..., Consumer]) -> None:
    consumer = make_consumer()

    def offset_at(timestamp: int) -> int:
        [found] = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp)], TIMEOUT)
        assert found.error is None
        return found.offset

    assert offset_at(START - 1) == 0
    assert offset_at(START) == 0
    assert offset_at(START + 1) == 1
    assert offset_at(START + 30_000) == 3
    assert offset_at(START + 30_001) == 4
    assert offset_at(START + 90_000) == 9
    assert offset_at(START + 90_001) == OFFSET_END
    consumer.assign([TopicPartition(topic, 0, offset_at(START + 45_000))])
    assert read(consumer, 5) == [b"5", b"6", b"7", b"8", b"9"]


def test_watermarks(topic: str, make_consumer: Callable[..., Consumer]) -> None:
    consumer = make_consumer()
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT) == (0, 10)
    assert consumer.get_watermark_offsets(TopicPartition(topic, 1), TIMEOUT) == (0, 0)


def test_pause_and_resume(raw: RawClient, topic: str, make_consumer: Callable[..., Consumer]) -> None:
    consumer = make_consumer()
    first, second = TopicPartition(topic, 0, OFFSET_BEGINNING), TopicPartition(topic, 1, OFFSET_BEGINNING)
    consumer.assign([first, second])
    assert read(consumer, 10)[-1] == b"9"
    consumer.pause([first])
    raw.produce(topic, make_batch([b"paused"]), partition=0)
    raw.produce(topic, make_batch([b"flows"]), partition=1)
    assert read(consumer, 1) == [b"flows"]
    assert consumer.poll(0.3) is None
    consumer.resume([first])
    assert read(consumer, 1) == [b"paused"]


def test_committed_offsets_and_metadata(topic: str, make_consumer: Callable[..., Consumer]) -> None:
    consumer = make_consumer()
    nothing = consumer.committed([TopicPartition(topic, 0)], TIMEOUT)
    assert nothing[0].offset == OFFSET_INVALID
    metadata = "said with the commit: {'ü': [1, 2]}"
    consumer.commit(offsets=[TopicPartition(topic, 0, 4, metadata)], asynchronous=False)
    other = make_consumer()
    [committed, uncommitted] = other.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], TIMEOUT)
    assert (committed.offset, committed.metadata) == (4, metadata)
    assert uncommitted.offset == OFFSET_INVALID


def test_a_group_goes_on_where_it_committed(topic: str, make_consumer: Callable[..., Consumer]) -> None:
    consumer = make_consumer(auto_offset_reset="earliest")
    consumer.subscribe([topic])
    assert read(consumer, 4) == [b"0", b"1", b"2", b"3"]
    consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
    consumer.close()
    again = make_consumer(auto_offset_reset="earliest")
    again.subscribe([topic])
    assert read(again, 2) == [b"4", b"5"]


def test_auto_commit_on_close(topic: str, make_consumer: Callable[..., Consumer]) -> None:
    consumer = make_consumer(auto_offset_reset="earliest", enable_auto_commit=True)
    consumer.subscribe([topic])
    assert len(read(consumer, 10)) == 10
    consumer.close()
    [committed] = make_consumer().committed([TopicPartition(topic, 0)], TIMEOUT)
    assert committed.offset == 10


@pytest.mark.parametrize(("reset", "expected"), [("earliest", b"0"), ("latest", b"new")])
def test_offset_reset(
    raw: RawClient, topic: str, make_consumer: Callable[..., Consumer], reset: str, expected: bytes
) -> None:
    consumer = make_consumer(auto_offset_reset=reset)
    consumer.assign([TopicPartition(topic, 0, 1_000)])  # out of range
    found: list[Message] = []

    def first_message() -> bool:
        # A message written before the reset took place is not news to it: keep writing.
        if reset == "latest":
            raw.produce(topic, make_batch([b"new"]))
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message)
        return bool(found)

    wait_until(first_message, "a message after the reset")
    assert found[0].value() == expected


def test_offset_reset_error(topic: str, make_consumer: Callable[..., Consumer]) -> None:
    consumer = make_consumer(auto_offset_reset="error")
    consumer.assign([TopicPartition(topic, 0, 1_000)])
    message = wait_until(lambda: consumer.poll(0.2), "the error")
    assert message.error().code() == KafkaError._AUTO_OFFSET_RESET


def test_a_regex_subscription_finds_new_topics(
    raw: RawClient, topic: str, make_consumer: Callable[..., Consumer]
) -> None:
    consumer = make_consumer(auto_offset_reset="earliest", topic_metadata_refresh_interval_ms=200)
    consumer.subscribe([f"^{topic}.*"])
    assert len(read(consumer, 10)) == 10
    consumer.commit(asynchronous=False)
    raw.create_topic(f"{topic}-later")
    raw.produce(f"{topic}-later", make_batch([b"found"]))
    assert read(consumer, 1) == [b"found"]


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_acks(raw: RawClient, bootstrap: str, topic: str, acks: int) -> None:
    delivered = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": acks, "linger.ms": 5})
    for index in range(1_000):
        producer.produce(
            topic, b"%d" % index, partition=1, on_delivery=lambda error, _: delivered.append(error)
        )
    assert producer.flush(TIMEOUT) == 0
    assert delivered == [None] * 1_000
    wait_until(lambda: raw.end_offset(topic, partition=1) == 1_000, "all messages")


def test_messages_over_the_limit_are_refused(raw: RawClient, bootstrap: str, topic: str) -> None:
    limited = f"{topic}-limited"
    raw.create_topic(limited, configs={"max.message.bytes": "20000"})
    errors = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for size in (19_000, 21_000, 19_000):
        producer.produce(
            limited, bytes(size), on_delivery=lambda error, _: errors.append(error and error.code())
        )
        assert producer.flush(TIMEOUT) == 0
    assert errors == [None, KafkaError.MSG_SIZE_TOO_LARGE, None]
    assert raw.end_offset(limited) == 2


def test_a_large_message(
    raw: RawClient, bootstrap: str, topic: str, make_consumer: Callable[..., Consumer]
) -> None:
    large = f"{topic}-large"
    raw.create_topic(large, configs={"max.message.bytes": "20000000"})
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 20_000_000})
    value = bytes(range(256)) * 40_000
    producer.produce(large, value)
    assert producer.flush(TIMEOUT) == 0
    consumer = make_consumer()
    consumer.assign([TopicPartition(large, 0, OFFSET_BEGINNING)])
    assert read(consumer, 1) == [value]


def test_an_idempotent_producer(raw: RawClient, bootstrap: str, topic: str) -> None:
    errors = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "batch.num.messages": 7})
    for index in range(2_000):
        producer.produce(topic, b"%d" % index, partition=1, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIMEOUT) == 0
    assert errors == [None] * 2_000
    assert raw.end_offset(topic, partition=1) == 2_000


def test_a_commit_by_a_stranger_is_refused(topic: str, make_consumer: Callable[..., Consumer]) -> None:
    """While the group has members, only they commit."""
    member = make_consumer(auto_offset_reset="earliest")
    member.subscribe([topic])
    read(member, 1)
    stranger = make_consumer()
    with pytest.raises(KafkaException) as refused:
        stranger.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
    assert refused.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID
