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
