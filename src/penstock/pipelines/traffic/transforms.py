"""The steps of the query, from messages to records of the heat map; each ends in a `select` as its contract.

The stateful step is one group, whose state is the whole of what is known. One group and not one for each
cell, because a duplicate may come through any partition, and because late and duplicate positions have to be
counted as exactly as the others: in the state that Spark commits together with the batch. All of a batch is
counted in one call, in columns, so one task is enough.
"""

from __future__ import annotations

import gc
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # Spark needs it; its types would be one more package
from pyspark.sql.types import StringType, StructField, StructType

from penstock.pipelines.traffic.parsing import parse
from penstock.pipelines.traffic.source import COLUMNS, MESSAGE_COLUMNS
from penstock.pipelines.traffic.state import decode, encode
from penstock.pipelines.traffic.tally import Positions, Shape, State, tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.state import GroupState

    from penstock.traffic.grid import Grid
    from penstock.traffic.heat import HeatCell, Totals

RECORDS: Final = StructType([StructField("records", StringType())])
"""One row for a batch: a line for each record, its key and its value with a tab in between. Rows of their own
would cost Spark and Python more time than all the counting."""
STATE: Final = StructType([StructField("state", StringType())])
"""In base64: Spark hands bytes over to Python one by one, and text as a whole."""


def positions(messages: DataFrame, grid: Grid) -> DataFrame:
    """One row for each message of Spark's own connector, as source.py gives them."""

    def parse_all(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield parse(batch, grid)

    return messages.select(*MESSAGE_COLUMNS).mapInArrow(parse_all, COLUMNS)


def keyed(found: DataFrame) -> DataFrame:
    """With the key that tells positions apart in place of the car."""
    return found.selectExpr(
        "outcome", "event_time", "clock", "xxhash64(car, event_time) AS key", "cell", "speed"
    )


def counted(found: DataFrame, shape: Shape, watermark_ms: int) -> DataFrame:
    """The records of the heat map as text, in the order in which they are to be written: totals are last."""
    return (
        keyed(found)
        .withWatermark("clock", f"{watermark_ms} milliseconds")
        .selectExpr("0 AS everything", "*")
        .coalesce(1)  # with one partition already there, Spark shuffles nothing
        .groupBy("everything")
        # Without a timeout Spark leaves late rows to us, who count them, instead of dropping them.
        .applyInPandasWithState(_counter(shape), RECORDS, STATE, "update", "NoTimeout")
        .select("records")
    )


def to_lines(records: Sequence[HeatCell | Totals]) -> str:
    return b"\n".join([b"%b\t%b" % (record.key, record.to_json()) for record in records]).decode()


def from_lines(text: str) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of each record."""
    for line in text.encode().split(b"\n"):
        key, _, value = line.partition(b"\t")
        yield key, value


def _counter(shape: Shape) -> Callable[..., Iterator[pd.DataFrame]]:
    def count(_: Any, batches: Iterable[pd.DataFrame], group: GroupState) -> Iterator[pd.DataFrame]:
        before = decode(b64decode(group.get[0]), shape) if group.exists else State()
        done = tally(before, _positions(list(batches)), group.getCurrentWatermarkMs(), shape)
        group.update((b64encode(encode(done.state, shape)).decode("ascii"),))
        yield pd.DataFrame({"records": [to_lines([*done.cells, done.totals])]})
        _spare_garbage_collection()

    return count


def _positions(batches: list[pd.DataFrame]) -> Positions:
    def column(name: str, kind: type[np.generic]) -> Any:
        return np.concatenate([batch[name].to_numpy(kind) for batch in batches])

    times = [batch["event_time"].to_numpy("datetime64[ms]") for batch in batches]
    return Positions(
        outcome=column("outcome", np.int8),
        ts=np.concatenate(times).view(np.int64),
        key=column("key", np.int64),
        cell=column("cell", np.int64),
        speed=column("speed", np.int64),
    )


def _spare_garbage_collection() -> None:
    """Spark collects garbage after every task, and what a worker has loaded by now is none."""
    if not gc.get_freeze_count():
        gc.freeze()
