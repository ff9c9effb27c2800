"""Transactions with kafka-python, as its users write them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import AbortTransactionSpec
from kafka.errors import KafkaError, ProducerFencedError
from kafka.structs import OffsetAndMetadata

from tests.support.kafka_python import kafka_python_admin
from tests.support.raw import RawClient, make_batch
from tests.support.topics import committed
from tests.support.wait import wait_until

TIMEOUT = 20.0
NOTHING = -1001


@pytest.fixture
def topic(raw: RawClient, topic: str) -> str:
    raw.create_topic(topic, partitions=2)
    return topic


@pytest.fixture
def make_producer(bootstrap: str, topic: str) -> Iterator[Callable[..., KafkaProducer]]:
    """Producers of one transactional id, that of the test, each ready to begin."""
    producers = []

    def make(**options: object) -> KafkaProducer:
        producers.append(KafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic, **options))
        producers[-1].init_transactions()
        return producers[-1]

    yield make
    for producer in producers:
        producer.close(timeout=1)


@pytest.fixture
def make_consumer(bootstrap: str) -> Iterator[Callable[..., KafkaConsumer]]:
    consumers = []

    def make(**options: object) -> KafkaConsumer:
        consumers.append(KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, **options))
        return consumers[-1]

    yield make
    for consumer in consumers:
        consumer.close()


@pytest.fixture
def read(bootstrap: str, topic: str) -> Callable[..., list[bytes]]:
    """What a reader of that kind finds in a partition, from its start to where it has to stop."""

    def read_partition(isolation: str = "read_committed", partition: int = 0) -> list[bytes]:
        where = TopicPartition(topic, partition)
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation)
        try:
            consumer.assign([where])
            consumer.seek_to_beginning(where)
            end = consumer.end_offsets([where])[where]
            found = []
            deadline = time.monotonic() + TIMEOUT
            while consumer.position(where) < end:
                assert time.monotonic() < deadline, f"at {consumer.position(where)} of {end}"
                found += [each.value for each in consumer.poll(200).get(where, ())]
            return found
        finally:
            consumer.close()

    return read_partition


def send(producer: KafkaProducer, topic: str, *values: bytes, partition: int = 0) -> None:
    for future in [producer.send(topic, value, partition=partition) for value in values]:
        future.get(TIMEOUT)


def test_commit_and_abort(make_producer: Any, read: Any, topic: str) -> None:
    producer = make_producer()
    producer.begin_transaction()
    send(producer, topic, b"a", b"b")
    send(producer, topic, b"c", partition=1)
    assert read() == []
    assert read(partition=1) == []
    assert read("read_uncommitted") == [b"a", b"b"]
    producer.commit_transaction()
    wait_until(lambda: (read(), read(partition=1)) == ([b"a", b"b"], [b"c"]), "what was committed")

    producer.begin_transaction()
    send(producer, topic, b"x")
    producer.abort_transaction()
    producer.begin_transaction()
    send(producer, topic, b"d")
    producer.commit_transaction()
    wait_until(lambda: read() == [b"a", b"b", b"d"], "the next one, and not the aborted one")
    assert read("read_uncommitted") == [b"a", b"b", b"x", b"d"]


@pytest.mark.parametrize("is_member", [True, False], ids=["as member", "by name"])
def test_consume_process_produce(
    raw: RawClient,
    make_producer: Any,
    make_consumer: Any,
    bootstrap: str,
    topic: str,
    group: str,
    is_member: bool,
) -> None:
    """Positions count with the messages that were made of what is before them, or not at all."""
    raw.produce(topic, make_batch([b"1", b"2", b"3"]), partition=1)
    producer = make_producer()
    consumer = make_consumer(
        group_id=group, auto_offset_reset="earliest", consumer_timeout_ms=int(TIMEOUT * 1_000)
    )
    consumer.subscribe([topic])
    message = next(consumer)
    positions = {TopicPartition(topic, 1): OffsetAndMetadata(message.offset + 1, "", -1)}
    for outcome, expected in (("abort", NOTHING), ("commit", 1)):
        producer.begin_transaction()
        send(producer, topic, b"of " + message.value)
        producer.send_offsets_to_transaction(positions, consumer.group_metadata() if is_member else group)
        if outcome == "abort":
            producer.abort_transaction()
        else:
            producer.commit_transaction()
        wait_until(lambda expected=expected: committed(bootstrap, group, (topic, 1)) == [expected], outcome)


def test_a_second_producer_fences_the_first(make_producer: Any, read: Any, topic: str) -> None:
    first = make_producer()
    first.begin_transaction()
    send(first, topic, b"of the first")
    second = make_producer()
    second.begin_transaction()
    send(second, topic, b"of the second")
    with pytest.raises(ProducerFencedError):
        first.commit_transaction()
    second.commit_transaction()
    wait_until(lambda: read() == [b"of the second"], "what the second committed")


def test_one_that_takes_too_long_is_aborted(
    raw: RawClient, make_producer: Any, read: Any, topic: str
) -> None:
    late = make_producer(transaction_timeout_ms=1_000)
    late.begin_transaction()
    send(late, topic, b"late")
    raw.produce(topic, make_batch([b"after"]))
    wait_until(lambda: read() == [b"after"], "the end of the transaction")
    with pytest.raises(KafkaError):
        late.commit_transaction()
    again = make_producer()
    again.begin_transaction()
    send(again, topic, b"again")
    again.commit_transaction()
    wait_until(lambda: read() == [b"after", b"again"], "the next transaction of that id")


def test_an_administrator_sees_it_and_ends_it(
    make_producer: Any, read: Any, bootstrap: str, topic: str
) -> None:
    producer, where = make_producer(), TopicPartition(topic, 0)
    producer.begin_transaction()
    send(producer, topic, b"open")
    with kafka_python_admin(bootstrap) as admin:
        described = admin.describe_transactions([topic])[topic]
        assert (described.state, described.topic_partitions) == ("Ongoing", {where})
        listed = [each for found in admin.list_transactions().values() for each in found]
        assert (topic, described.producer_id, "Ongoing") in listed
        (active,) = admin.describe_producers([where])[where].active_producers
        assert (active.producer_id, active.producer_epoch) == described[2:4]
        assert active.current_transaction_start_offset == 0
        admin.abort_transaction(AbortTransactionSpec(where, active.producer_id, active.producer_epoch))
        (active,) = admin.describe_producers([where])[where].active_producers
        assert active.current_transaction_start_offset == -1
    assert read() == []
    assert read("read_uncommitted") == [b"open"]
    producer.abort_transaction()


def test_many_transactions_in_a_row(make_producer: Any, read: Any, topic: str) -> None:
    producer = make_producer()
    for number in range(9):
        producer.begin_transaction()
        producer.send(topic, b"%d" % number, partition=0)
        (producer.abort_transaction if number % 3 == 2 else producer.commit_transaction)()
    kept = [b"%d" % number for number in range(9) if number % 3 != 2]
    wait_until(lambda: read() == kept, "what was committed")
