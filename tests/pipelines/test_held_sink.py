"""A sink that is held: each batch once, whatever becomes of its commit, and nobody writes beside another."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.spark.attempt import Attempt
from penstock.spark.errors import SinkFencedError
from penstock.spark.held_sink import HeldSink
from penstock.spark.options import Connection
from penstock.spark.sink_state import Batch
from tests.support import topics
from tests.support.committed import read_committed

if TYPE_CHECKING:
    from penstock.spark.rows import Row
    from penstock.spark.sink_state import SinkState
    from tests.support.broker import BrokerProcess

TIMEOUT_MS = 30_000


@pytest.fixture
def connection(shared_broker: BrokerProcess, topic: str) -> Connection:
    topics.create_topic(shared_broker.bootstrap, topic)
    return Connection(shared_broker.bootstrap, TIMEOUT_MS)


def row(topic: str, value: bytes) -> Row:
    return topic, value, b"key", 0, None


def test_what_is_written_is_remembered_by_the_next(connection: Connection, topic: str) -> None:
    first, second = Batch("q", "r1", 0), Batch("q", "r1", 1)
    with closing(HeldSink(connection, topic)) as sink:
        assert not sink.has(first)
        sink.publish(first, [row(topic, b"1"), row(topic, b"2")])
        sink.publish(second, [row(topic, b"3")])
        assert sink.has(second)
    with closing(HeldSink(connection, topic)) as sink:
        assert sink.has(first)
        assert sink.has(Batch("q", "r2", 1))
        assert not sink.has(Batch("q", "r2", 2))
    assert read_committed(connection.bootstrap, topic) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("reached", [True, False])
def test_a_commit_of_unknown_outcome(
    connection: Connection, topic: str, monkeypatch: pytest.MonkeyPatch, *, reached: bool
) -> None:
    real = Attempt.commit
    failures = [KafkaException(KafkaError(KafkaError._TIMED_OUT))]

    def commit(attempt: Attempt, state: SinkState) -> None:
        if reached or not failures:
            real(attempt, state)
        if failures:
            raise failures.pop()

    monkeypatch.setattr(Attempt, "commit", commit)
    with closing(HeldSink(connection, topic)) as sink:
        sink.publish(Batch("q", "r1", 0), [row(topic, b"1")])
        sink.publish(Batch("q", "r1", 1), [row(topic, b"2")])
    assert not failures
    assert read_committed(connection.bootstrap, topic) == [b"1", b"2"]


def test_who_was_overtaken_writes_no_more(connection: Connection, topic: str) -> None:
    with closing(HeldSink(connection, topic)) as old, closing(HeldSink(connection, topic)) as new:
        new.publish(Batch("q", "r2", 0), [row(topic, b"new")])
        with pytest.raises(SinkFencedError):
            old.publish(Batch("q", "r1", 0), [row(topic, b"old")])
    assert read_committed(connection.bootstrap, topic) == [b"new"]
