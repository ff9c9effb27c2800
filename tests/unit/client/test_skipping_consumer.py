"""When a partition is looked at for poison, and what a look that finds none, or fails, changes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.client.kafka import poison, skipping_consumer
from penstock.client.kafka.skipping_consumer import CHECK_S, STANDSTILL_S, SkippingConsumer
from penstock.kafka.front import Front
from penstock.kafka.records import Undecodable
from penstock.wire.records import RecordsError
from tests.unit.client.test_kafka_publisher import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from confluent_kafka import TopicPartition

PARTITION = ("t", 0)


class Standing(SkippingConsumer):
    """Of one partition, and no broker."""

    offset = 5
    end = 9

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        (self.offset,) = (each.offset for each in partitions)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        pass

    def _offsets(self) -> dict[tuple[str, int], int]:
        return {PARTITION: self.offset}

    def _end(self, partition: tuple[str, int]) -> int:
        return self.end


class Looks:
    """What looks find, and where they began."""

    def __init__(self) -> None:
        self.began_at: list[int] = []
        self.find: Callable[[int], Front] = lambda offset: Front([], offset)

    def look(
        self, bootstrap: str, partition: Any, offset: int, told: int | None, *, committed: bool
    ) -> Front:
        assert (bootstrap, partition, committed) == ("127.0.0.1:1", PARTITION, True)
        self.began_at.append(offset)
        return self.find(offset)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    found = Looks()
    monkeypatch.setattr(poison, "look", found.look)
    return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(skipping_consumer, "time", found)
    return found


@pytest.fixture
def skipped() -> list[tuple[tuple[str, int], int]]:
    return []


@pytest.fixture
def consumer(skipped: list[tuple[tuple[str, int], int]], clock: Clock, looks: Looks) -> Iterator[Standing]:
    settings = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}
    opened = Standing(settings, lambda *each: skipped.append(each))
    yield opened
    opened.close()


def wait(consumer: Standing, clock: Clock, seconds: float) -> None:
    for _ in range(round(seconds / CHECK_S)):
        clock.now += CHECK_S
        consumer.poll(0)


def found_poison(offset: int) -> Front:
    return Front([Undecodable(offset, RecordsError("a reason"))], offset + 1)


def unreachable(offset: int) -> Front:
    raise KafkaException(KafkaError(KafkaError._TRANSPORT))


def broken(offset: int) -> Any:
    """The event of librdkafka for a batch that does not unpack."""
    error = SimpleNamespace(code=lambda: KafkaError._BAD_COMPRESSION)
    return SimpleNamespace(error=lambda: error, topic=lambda: "t", partition=lambda: 0, offset=lambda: offset)


def test_a_partition_that_stands_still_is_passed_over_and_named(
    consumer: Standing, clock: Clock, looks: Looks, skipped: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    looks.find = found_poison
    wait(consumer, clock, STANDSTILL_S)
    assert (looks.began_at, skipped) == ([], [])
    wait(consumer, clock, CHECK_S)
    assert (looks.began_at, skipped, consumer.offset) == ([5], [(PARTITION, 6)], 6)
    assert "passed over the batch at offset 5 of t-0: a reason" in caplog.text


def test_one_that_moves_or_is_at_its_end_is_not_looked_at(
    consumer: Standing, clock: Clock, looks: Looks
) -> None:
    for _ in range(10):
        wait(consumer, clock, STANDSTILL_S)
        consumer.offset, consumer.end = consumer.offset + 1, consumer.end + 1
    consumer.offset = consumer.end
    wait(consumer, clock, 10 * STANDSTILL_S)
    assert looks.began_at == []


def test_what_was_found_clear_is_looked_at_again_when_there_is_more(
    consumer: Standing, clock: Clock, looks: Looks
) -> None:
    """As the end of a transaction, which no reader sees."""
    looks.find = lambda _: Front([], consumer.end)
    wait(consumer, clock, 10 * STANDSTILL_S)
    assert looks.began_at == [5]
    consumer.end += 1
    wait(consumer, clock, CHECK_S)
    assert looks.began_at == [5, 5]


def test_a_look_that_failed_is_repeated(consumer: Standing, clock: Clock, looks: Looks) -> None:
    looks.find = unreachable
    wait(consumer, clock, 3 * STANDSTILL_S + CHECK_S)
    assert (looks.began_at, consumer.offset) == ([5, 5, 5], 5)


def test_an_error_that_is_reported_is_dealt_with_at_once(consumer: Standing, looks: Looks) -> None:
    looks.find = found_poison
    assert consumer._passes_over(broken(5))
    assert consumer.offset == 6
    looks.find = lambda offset: Front([], offset)
    assert consumer._passes_over(broken(5)), "it was on its way when the batch was passed over"
    assert not consumer._passes_over(broken(6)), "nothing is wrong with that batch, so the caller is told"
    assert consumer.offset == 6
