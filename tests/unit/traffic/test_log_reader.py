"""Reading a topic once, with a consumer that says what a test wants it to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from penstock.client.errors import (
    DataNotAvailableError,
    NotAuthorizedError,
    TopicClusterDoesNotExistError,
    TopicNotFoundError,
)
from penstock.traffic.log_reader import Offsets, _Reading


class Event:
    def __init__(self, partition: int, offset: int, error: int | None = None) -> None:
        self._partition = partition
        self._offset = offset
        self._error = None if error is None else KafkaError(error)

    def error(self) -> KafkaError | None:
        return self._error

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset


class FakeConsumer:
    def __init__(self, *events: Event) -> None:
        self.events = list(events)
        self.assigned: list[dict[int, int]] = []

    def poll(self, timeout_s: float) -> Event | None:
        return self.events.pop(0) if self.events else None

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned.append({each.partition: each.offset for each in partitions})

    def unassign(self) -> None:
        self.assigned.append({})


class Brokers:
    timeout_s = 0.01


EOF = KafkaError._PARTITION_EOF


def is_there(_topic: str) -> None:
    return


def read(
    consumer: FakeConsumer,
    starts: Offsets,
    ends: Offsets,
    oldest: Offsets | None = None,
    require: Callable[[str], None] = is_there,
) -> list[Any]:
    def parse(message: Any) -> tuple[int, int] | None:
        place = (message.partition(), message.offset())
        return None if place == (0, 13) else place

    reading: _Reading[tuple[int, int]] = _Reading(Brokers(), consumer, "t", parse)  # type: ignore[arg-type]
    return reading.run(starts, ends, lambda _topic, _partitions: oldest or {}, require)


def test_each_partition_in_its_order() -> None:
    consumer = FakeConsumer(Event(1, 5), Event(0, 0), Event(1, 6), Event(0, 1))
    assert read(consumer, {0: 0, 1: 5, 2: 9}, {0: 2, 1: 7, 2: 9}) == [(0, 0), (0, 1), (1, 5), (1, 6)]
    assert consumer.assigned == [{0: 0, 1: 5}, {}]


def test_nothing_to_read() -> None:
    assert read(FakeConsumer(), {0: 3, 1: -1}, {0: 3, 1: 8}) == []


def test_what_is_written_meanwhile_is_left_alone() -> None:
    consumer = FakeConsumer(Event(0, 0), Event(0, 1), Event(0, 2), Event(1, 0))
    assert read(consumer, {0: 0, 1: 0}, {0: 2, 1: 1}) == [(0, 0), (0, 1), (1, 0)]


def test_offsets_that_are_missing() -> None:
    """Compaction took 1, 2 and everything from 4 on; the end is there nevertheless."""
    consumer = FakeConsumer(Event(0, 0), Event(0, 3), Event(0, 9, EOF))
    assert read(consumer, {0: 0}, {0: 9}) == [(0, 0), (0, 3)]
    behind = FakeConsumer(Event(0, 0), Event(0, 12))
    assert read(behind, {0: 0}, {0: 9}) == [(0, 0)]


def test_what_is_not_wanted_is_left_out() -> None:
    assert read(FakeConsumer(Event(0, 12), Event(0, 13), Event(0, 14)), {0: 12}, {0: 15}) == [
        (0, 12),
        (0, 14),
    ]


@pytest.mark.parametrize("code", [KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE])
def test_records_that_are_removed_meanwhile(code: int) -> None:
    consumer = FakeConsumer(Event(0, 0), Event(0, 1, code), Event(0, 5), Event(1, 3))
    assert read(consumer, {0: 0, 1: 3}, {0: 6, 1: 4}, {0: 5, 1: 0}) == [(0, 0), (0, 5), (1, 3)]
    assert consumer.assigned == [{0: 0, 1: 3}, {0: 5, 1: 3}, {}]
    gone = FakeConsumer(Event(0, 0, code))
    assert read(gone, {0: 0}, {0: 6}, {0: 6}) == []


def test_a_leader_that_moves_is_waited_for() -> None:
    passing = [KafkaError._TRANSPORT, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError._ALL_BROKERS_DOWN]
    consumer = FakeConsumer(*(Event(0, 0, code) for code in passing), Event(0, 0))
    assert read(consumer, {0: 0}, {0: 1}) == [(0, 0)]


def test_half_an_answer_is_none() -> None:
    consumer = FakeConsumer(Event(0, 0))
    with pytest.raises(DataNotAvailableError, match=r"nothing came from partitions \[1\] for 0.01 s"):
        read(consumer, {0: 0, 1: 0}, {0: 1, 1: 1})
    assert consumer.assigned[-1] == {}


def test_a_topic_that_is_deleted_meanwhile_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Brokers, "timeout_s", 60.0)

    def is_gone(topic: str) -> None:
        raise TopicClusterDoesNotExistError(f"no {topic}")

    with pytest.raises(TopicClusterDoesNotExistError, match="no t"):
        read(FakeConsumer(Event(0, 0)), {0: 0, 1: 0}, {0: 1, 1: 1}, require=is_gone)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._BAD_MSG, DataNotAvailableError),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, TopicNotFoundError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, NotAuthorizedError),
    ],
)
def test_failures(code: int, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        read(FakeConsumer(Event(0, 0, code)), {0: 0}, {0: 1})
