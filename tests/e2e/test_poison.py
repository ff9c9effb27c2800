"""Batches with the right checksum and records that are none: readers pass over them and name them."""

from __future__ import annotations

import logging
from itertools import count
from typing import TYPE_CHECKING

import pytest

from penstock import Consumer, Subscriber
from penstock.client.kafka.group_offsets import look_at_offsets
from penstock.client.pubsub.messages import name_of
from penstock.traffic import BBox, Grid, Position, TrafficClient
from tests.support.raw import POISON, RawClient, make_batch, poison_batch
from tests.support.wait import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

WAIT_S = 20.0 * PATIENCE
BEFORE, AFTER = b"before", b"after"


@pytest.fixture
def raw(bootstrap: str) -> Iterator[RawClient]:
    with RawClient(bootstrap) as client:
        yield client


def poison(raw: RawClient, topic: str) -> None:
    """Into each partition one kind of poison, between a message before it and one after it."""
    for index, batch in enumerate(POISON.values()):
        for each in (make_batch([BEFORE]), batch, make_batch([AFTER])):
            assert raw.produce(topic, each, partition=index).error_code.name == "none"


def named(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The batches that warnings name, as `offset of partition`."""
    start = "passed over the batch at offset "
    lines = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    return sorted(line.removeprefix(start).partition(":")[0] for line in lines if line.startswith(start))


def poisonous(topic: str) -> list[str]:
    return sorted(f"1 of {topic}-{index}" for index in range(len(POISON)))


def test_a_consumer_passes_over_poison_and_names_it(
    bootstrap: str, raw: RawClient, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    raw.create_topic(topic, partitions=len(POISON))
    poison(raw, topic)
    found = []
    with Consumer(topic, bootstrap, timeout_s=WAIT_S) as consumer:
        while consumer.has_next(topic):
            found.append(consumer.get_next(topic).encode())
        assert consumer.size(topic) == 0
    assert found.count(BEFORE) == found.count(AFTER) == len(POISON)
    assert named(caplog) == poisonous(topic)


def test_a_subscriber_gets_what_is_around_poison_once_and_is_behind_it_for_good(
    bootstrap: str, raw: RawClient, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    raw.create_topic(topic, partitions=len(POISON))
    with Subscriber(topic, bootstrap, timeout_s=WAIT_S) as subscriber:
        subscriber.subscribe(topic)
        poison(raw, topic)
        found = []
        while found.count(AFTER) < len(POISON):
            found += [each.value for each in subscriber.get_many(100, timeout=WAIT_S)]
        assert found.count(BEFORE) == len(POISON)
        assert named(caplog) == poisonous(topic)
        # At the end of the log, where no message comes after it.
        end = raw.produce(topic, poison_batch(), partition=0).base_offset + 1
        assert subscriber.get(timeout=0) is None
    assert look_at_offsets(bootstrap, name_of("subscriber", topic), WAIT_S)[topic, 0] == end
    caplog.clear()
    with Subscriber(topic, bootstrap, timeout_s=WAIT_S) as subscriber:
        raw.produce(topic, make_batch([b"later"]))
        later = subscriber.get(timeout=WAIT_S)
        assert later is not None
        assert (later.value, later.offset) == (b"later", end)
        assert subscriber.get(timeout=0) is None
    assert named(caplog) == []


def test_a_traffic_client_reads_what_is_around_poison(
    bootstrap: str, raw: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    grid = Grid(BBox(0, 0, 10, 10), rows=1, cols=1)
    with TrafficClient(bootstrap, 7, grid=grid, timeout_s=WAIT_S) as client:
        topic = client.topic((1, 1))
        client.create_topic(topic)
        client.write(topic, Position(7, 1, 1, ts=1))
        index = next(each for each in count() if raw.end_offset(topic, partition=each))
        for batch in (poison_batch(), poison_batch(b"not compressed", codec=1)):
            assert raw.produce(topic, batch, partition=index).error_code.name == "none"
        client.write(topic, Position(7, 2, 2, ts=2))
        assert [each.ts for each in client.read(topic)] == [1, 2]
    assert named(caplog) == [f"1 of {topic}-{index}", f"2 of {topic}-{index}"]
