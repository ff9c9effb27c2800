"""Reading one range as a task does, without Spark: what a broker may do meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.spark.consumer import read_ranges
from penstock.spark.errors import DataLossError, SourceError
from penstock.spark.offsets import OffsetRange, Partition
from penstock.spark.options import ReadOptions, read_options
from tests.support import topics

if TYPE_CHECKING:
    from tests.support.broker import BrokerProcess


def options(bootstrap: str, timeout_ms: int = 10_000, **others: str) -> ReadOptions:
    return read_options({"bootstrap": bootstrap, "subscribe": "a", "timeoutMs": str(timeout_ms), **others})


def values(bootstrap: str, start: int, end: int, timeout_ms: int = 10_000, **others: str) -> list[bytes]:
    wanted = OffsetRange(Partition("a", 0), start, end)
    batches = read_ranges([wanted], options(bootstrap, timeout_ms, **others))
    return [value for batch in batches for value in batch.column("value").to_pylist()]


def numbered(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def test_a_range_is_read_the_same_however_often(broker: BrokerProcess) -> None:
    topics.fill(broker.bootstrap, "a", numbered(0, 5_000))
    for start, end in ((0, 5_000), (17, 4_011), (4_999, 5_000), (17, 4_011)):
        assert values(broker.bootstrap, start, end) == numbered(start, end)
    topics.fill(broker.bootstrap, "a", numbered(5_000, 5_010))
    assert values(broker.bootstrap, 17, 4_011) == numbered(17, 4_011)


def test_a_range_longer_than_the_log(broker: BrokerProcess) -> None:
    topics.fill(broker.bootstrap, "a", numbered(0, 10))
    with pytest.raises(
        DataLossError, match="a-0 is to be read from offset 10 up to 12, and its log ends at 10"
    ):
        values(broker.bootstrap, 5, 12)
    assert values(broker.bootstrap, 5, 12, failOnDataLoss="false") == numbered(5, 10)
    with pytest.raises(DataLossError, match="offset 11 was asked for and the log ends at 10"):
        values(broker.bootstrap, 11, 12)


def test_a_topic_that_is_gone(broker: BrokerProcess) -> None:
    with pytest.raises(DataLossError, match="partition a-0 is gone"):
        values(broker.bootstrap, 0, 1)


def test_a_silent_broker_is_an_error_and_no_hang(broker: BrokerProcess) -> None:
    topics.fill(broker.bootstrap, "a", numbered(0, 10))
    broker.terminate()
    with pytest.raises(SourceError, match=f"nothing came from {broker.bootstrap} for 1.5 s: "):
        values(broker.bootstrap, 0, 10, 1_500)


def test_a_broker_that_restarts_meanwhile(broker: BrokerProcess) -> None:
    """The reader is stopped after its first batch, with most of the range still to come."""
    padding = b"x" * 5_000
    topics.fill(broker.bootstrap, "a", [value + padding for value in numbered(0, 20_000)])
    found = []
    for batch in read_ranges([OffsetRange(Partition("a", 0), 0, 20_000)], options(broker.bootstrap, 30_000)):
        if not found:
            broker.restart(clean=False)
        found += batch.column("offset").to_pylist()
    assert found == list(range(20_000))


def test_ranges_of_several_partitions_together_and_after_one_another(broker: BrokerProcess) -> None:
    """The same consumer reads on, back, and other partitions than before; nothing of before is mixed in."""
    topics.create_topic(broker.bootstrap, "a", 3)
    topics.create_topic(broker.bootstrap, "b", 1)
    for topic, partition in (("a", 0), ("a", 1), ("a", 2), ("b", 0)):
        first = 100_000 * (partition + 1) if topic == "a" else 0
        topics.fill(broker.bootstrap, topic, numbered(first, first + 3_000), partition=partition)
    a0, a1, a2, b0 = Partition("a", 0), Partition("a", 1), Partition("a", 2), Partition("b", 0)
    for asked in (
        [OffsetRange(a0, 0, 1_000), OffsetRange(a1, 0, 3_000), OffsetRange(b0, 2_999, 3_000)],
        [OffsetRange(a0, 1_000, 2_000), OffsetRange(a2, 5, 6)],
        [OffsetRange(a0, 500, 700), OffsetRange(b0, 0, 3_000)],
        [OffsetRange(b0, 10, 20)],
    ):
        found: dict[Partition, list[int]] = {}
        for batch in read_ranges(asked, options(broker.bootstrap)):
            (topic,), (partition,) = set(batch["topic"].to_pylist()), set(batch["partition"].to_pylist())
            found.setdefault(Partition(topic, partition), []).extend(batch["offset"].to_pylist())
        assert found == {each.partition: list(range(each.start, each.end)) for each in asked}
