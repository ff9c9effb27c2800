"""Transactions with confluent-kafka, as its users write them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.support import transactions
from tests.support.raw import RawClient, make_batch
from tests.support.topics import committed
from tests.support.transactions import polled, send, transactional
from tests.support.wait import wait_until

TIMEOUT = 20.0
NOTHING = -1001

Read = Callable[..., list[bytes | None]]
MakeProducer = Callable[..., Producer]


@pytest.fixture
def topic(raw: RawClient, topic: str) -> str:
    raw.create_topic(topic, partitions=2)
    return topic


@pytest.fixture
def make_producer(bootstrap: str, topic: str) -> MakeProducer:
    """Producers of one transactional id, that of the test."""
    return partial(transactional, bootstrap, topic)


@pytest.fixture
def read(bootstrap: str, topic: str) -> Read:
    return partial(transactions.read, bootstrap, topic)


def test_commit_and_abort(make_producer: MakeProducer, read: Read, topic: str) -> None:
    producer = make_producer()
    producer.begin_transaction()
    send(producer, topic, b"a", b"b")
    send(producer, topic, b"c", partition=1)
    assert read() == []
    assert read(partition=1) == []
    assert read(isolation="read_uncommitted") == [b"a", b"b"]
    producer.commit_transaction(TIMEOUT)
    wait_until(lambda: (read(), read(partition=1)) == ([b"a", b"b"], [b"c"]), "what was committed")

    producer.begin_transaction()
    send(producer, topic, b"x")
    producer.abort_transaction(TIMEOUT)
    producer.begin_transaction()
    send(producer, topic, b"d")
    producer.commit_transaction(TIMEOUT)
    wait_until(lambda: read() == [b"a", b"b", b"d"], "the next one, and not the aborted one")
    assert read(isolation="read_uncommitted") == [b"a", b"b", b"x", b"d"]


def test_a_transaction_without_messages(make_producer: MakeProducer, read: Read) -> None:
    producer = make_producer()
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        end(TIMEOUT)
    assert read() == []


def test_others_wait_behind_an_open_one(
    raw: RawClient, make_producer: MakeProducer, read: Read, topic: str
) -> None:
    producer = make_producer()
    raw.produce(topic, make_batch([b"before"]))
    producer.begin_transaction()
    send(producer, topic, b"x")
    raw.produce(topic, make_batch([b"after"]))
    assert read() == [b"before"]
    producer.abort_transaction(TIMEOUT)
    wait_until(lambda: read() == [b"before", b"after"], "what was behind the transaction")


def test_consume_process_produce(
    raw: RawClient, make_producer: MakeProducer, read: Read, bootstrap: str, topic: str, group: str
) -> None:
    """Positions count with the messages that were made of what is before them, or not at all."""
    raw.produce(topic, make_batch([b"1", b"2", b"3"]), partition=1)
    producer = make_producer()
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    with closing(Consumer({**settings, "enable.auto.commit": False})) as consumer:
        consumer.subscribe([topic])
        message = next(polled(consumer))
        for outcome, expected in (("abort", NOTHING), ("commit", 1)):
            producer.begin_transaction()
            send(producer, topic, b"of " + message.value())
            position = TopicPartition(topic, 1, message.offset() + 1)
            producer.send_offsets_to_transaction([position], consumer.consumer_group_metadata(), TIMEOUT)
            if outcome == "abort":
                producer.abort_transaction(TIMEOUT)
            else:
                producer.commit_transaction(TIMEOUT)
            wait_until(
                lambda expected=expected: committed(bootstrap, group, (topic, 1)) == [expected], outcome
            )
    wait_until(lambda: read() == [b"of 1"], "the result")


def test_a_second_producer_fences_the_first(make_producer: MakeProducer, read: Read, topic: str) -> None:
    first = make_producer()
    first.begin_transaction()
    send(first, topic, b"of the first")
    second = make_producer()
    second.begin_transaction()
    send(second, topic, b"of the second")
    with pytest.raises(KafkaException) as refused:
        first.commit_transaction(TIMEOUT)
    assert refused.value.args[0].code() == KafkaError._FENCED
    assert refused.value.args[0].fatal()
    second.commit_transaction(TIMEOUT)
    wait_until(lambda: read() == [b"of the second"], "what the second committed")


def test_one_that_takes_too_long_is_aborted(
    raw: RawClient, make_producer: MakeProducer, read: Read, topic: str
) -> None:
    late = make_producer(transaction_timeout_ms=1_000)
    late.begin_transaction()
    send(late, topic, b"late")
    raw.produce(topic, make_batch([b"after"]))
    wait_until(lambda: read() == [b"after"], "the end of the transaction")
    with pytest.raises(KafkaException) as refused:
        late.commit_transaction(TIMEOUT)
    assert refused.value.args[0].fatal() or refused.value.args[0].txn_requires_abort()
    again = make_producer()
    again.begin_transaction()
    send(again, topic, b"again")
    again.commit_transaction(TIMEOUT)
    wait_until(lambda: read() == [b"after", b"again"], "the next transaction of that id")


def test_a_timeout_beyond_the_limit_is_refused(make_producer: MakeProducer) -> None:
    with pytest.raises(KafkaException) as refused:
        make_producer(transaction_timeout_ms=15 * 60 * 1_000 + 1)
    assert refused.value.args[0].code() == KafkaError.INVALID_TRANSACTION_TIMEOUT


def test_many_transactions_in_a_row(make_producer: MakeProducer, read: Read, topic: str) -> None:
    producer = make_producer()
    for number in range(9):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number, partition=0)
        (producer.abort_transaction if number % 3 == 2 else producer.commit_transaction)(TIMEOUT)
    kept = [b"%d" % number for number in range(9) if number % 3 != 2]
    wait_until(lambda: read() == kept, "what was committed")
