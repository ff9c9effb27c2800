"""Reading one range as a task does, without Spark: what a broker may do meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.pipelines.flights.service.source import FlightsStreamReader
from penstock.pipelines.traffic.source import PositionsStreamReader
from penstock.spark.consumer import read_ranges
from penstock.spark.datasource import RangePartition
from penstock.spark.errors import DataLossError, SourceError
from penstock.spark.offsets import OffsetRange, Partition
from penstock.spark.options import ReadOptions, read_options
from penstock.traffic import DEFAULT_GRID
from tests.support import topics
from tests.support.raw import POISON, RawClient, make_batch, poison_batch

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.broker import BrokerProcess

NOTHING_COMES_MS = 2_500
"""Then the reader asks the broker what there is."""


def options(bootstrap: str, topic: str, timeout_ms: int = 10_000, **others: str) -> ReadOptions:
    return read_options({"bootstrap": bootstrap, "subscribe": topic, "timeoutMs": str(timeout_ms), **others})


def values(
    bootstrap: str, topic: str, start: int, end: int, timeout_ms: int = 10_000, **others: str
) -> list[bytes]:
    wanted = OffsetRange(Partition(topic, 0), start, end)
    batches = read_ranges([wanted], options(bootstrap, topic, timeout_ms, **others))
    return [value for batch in batches for value in batch.column("value").to_pylist()]


def numbered(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def test_a_range_is_read_the_same_however_often(bootstrap: str, topic: str) -> None:
    topics.fill(bootstrap, topic, numbered(0, 5_000))
    for start, end in ((0, 5_000), (17, 4_011), (4_999, 5_000), (17, 4_011)):
        assert values(bootstrap, topic, start, end) == numbered(start, end)
    topics.fill(bootstrap, topic, numbered(5_000, 5_010))
    assert values(bootstrap, topic, 17, 4_011) == numbered(17, 4_011)


def test_a_range_longer_than_the_log(bootstrap: str, topic: str) -> None:
    topics.fill(bootstrap, topic, numbered(0, 10))
    with pytest.raises(
        DataLossError, match=f"{topic}-0 is to be read from offset 10 up to 12, and its log ends at 10"
    ):
        values(bootstrap, topic, 5, 12, NOTHING_COMES_MS)
    assert values(bootstrap, topic, 5, 12, NOTHING_COMES_MS, failOnDataLoss="false") == numbered(5, 10)
    with pytest.raises(DataLossError, match="offset 11 was asked for and the log ends at 10"):
        values(bootstrap, topic, 11, 12)


@pytest.mark.parametrize("after", [[b"after"], []], ids=["inside", "at the end"])
def test_poison_is_passed_over_and_named(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture, after: list[bytes]
) -> None:
    """A partition for each kind; where nothing comes after it, the ranges end with the poison."""
    partitions = [Partition(topic, index) for index in range(len(POISON))]
    with RawClient(bootstrap) as raw:
        raw.create_topic(topic, partitions=len(POISON))
        for index, batch in enumerate(POISON.values()):
            for each in (make_batch([b"before"]), batch, *(make_batch([value]) for value in after)):
                raw.produce(topic, each, partition=index)
        asked = [OffsetRange(each, 0, raw.end_offset(topic, partition=each.partition)) for each in partitions]
    found: dict[int, list[bytes]] = {}
    for batch in read_ranges(asked, options(bootstrap, topic)):
        found.setdefault(batch["partition"][0].as_py(), []).extend(batch["value"].to_pylist())
    for each, kind in zip(partitions, POISON, strict=True):
        readable = [b"x"] if kind == "a good record and a bad one" else []
        assert found[each.partition] == [b"before", *readable, *after], kind
        assert f"passed over the batch at offset 1 of {each}:" in caplog.text


def test_the_sources_of_the_applications_pass_over_poison(bootstrap: str, topic: str, tmp_path: Path) -> None:
    """The Flights service and the heat map."""
    with RawClient(bootstrap) as raw:
        raw.create_topic(topic)
        for batch in (make_batch([b"before"]), poison_batch(), make_batch([b"after"])):
            raw.produce(topic, batch)
    asked = RangePartition((OffsetRange(Partition(topic, 0), 0, 3),))
    wanted = options(bootstrap, topic).for_stream()
    for source in (FlightsStreamReader(wanted, str(tmp_path)), PositionsStreamReader(wanted, DEFAULT_GRID)):
        assert sum(batch.num_rows for batch in source.read(asked)) == 2


def test_a_topic_that_is_gone(bootstrap: str, topic: str) -> None:
    with pytest.raises(DataLossError, match=f"partition {topic}-0 is gone"):
        values(bootstrap, topic, 0, 1, NOTHING_COMES_MS)


def test_a_silent_broker_is_an_error_and_no_hang(broker: BrokerProcess, topic: str) -> None:
    topics.fill(broker.bootstrap, topic, numbered(0, 10))
    broker.terminate()
    with pytest.raises(SourceError, match=f"nothing came from {broker.bootstrap} for 1.5 s: "):
        values(broker.bootstrap, topic, 0, 10, 1_500)


def test_a_broker_that_restarts_meanwhile(broker: BrokerProcess, topic: str) -> None:
    """The reader is stopped after its first batch, with most of the range still to come."""
    padding = b"x" * 5_000
    topics.fill(broker.bootstrap, topic, [value + padding for value in numbered(0, 20_000)])
    found = []
    for batch in read_ranges(
        [OffsetRange(Partition(topic, 0), 0, 20_000)], options(broker.bootstrap, topic, 30_000)
    ):
        if not found:
            broker.restart(clean=False)
        found += batch.column("offset").to_pylist()
    assert found == list(range(20_000))


def test_ranges_of_several_partitions_together_and_after_one_another(bootstrap: str, topic: str) -> None:
    """The same consumer reads on, back, and other partitions than before; nothing of before is mixed in."""
    other = f"{topic}-other"
    topics.create_topic(bootstrap, topic, 3)
    topics.create_topic(bootstrap, other, 1)
    a0, a1, a2, b0 = *(Partition(topic, index) for index in range(3)), Partition(other, 0)
    for each in (a0, a1, a2, b0):
        first = 100_000 * (each.partition + 1) if each.topic == topic else 0
        topics.fill(bootstrap, each.topic, numbered(first, first + 3_000), partition=each.partition)
    for asked in (
        [OffsetRange(a0, 0, 1_000), OffsetRange(a1, 0, 3_000), OffsetRange(b0, 2_999, 3_000)],
        [OffsetRange(a0, 1_000, 2_000), OffsetRange(a2, 5, 6)],
        [OffsetRange(a0, 500, 700), OffsetRange(b0, 0, 3_000)],
        [OffsetRange(b0, 10, 20)],
    ):
        found: dict[Partition, list[int]] = {}
        for batch in read_ranges(asked, options(bootstrap, topic)):
            (name,), (index,) = set(batch["topic"].to_pylist()), set(batch["partition"].to_pylist())
            found.setdefault(Partition(name, index), []).extend(batch["offset"].to_pylist())
        assert found == {each.partition: list(range(each.start, each.end)) for each in asked}
