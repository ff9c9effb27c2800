"""The steps of the query, from messages to records of the heat map; each ends in a `select` as its contract.

The stateful step is one group, whose state is the whole of what is known. One group and not one for each
cell, because a duplicate may come through any partition, and because late and duplicate positions have to be
counted as exactly as the others: in the state that Spark commits together with the batch. All of a batch is
counted in one call, in columns, so one task is enough.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # Spark needs it; its types would be one more package
from pyspark.sql.types import BinaryType, StructField, StructType

from penstock.pipelines.traffic.parsing import parse
from penstock.pipelines.traffic.state import decode, encode
from penstock.pipelines.traffic.tally import Positions, Shape, State, tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.state import GroupState

    from penstock.traffic.grid import Grid
    from penstock.traffic.heat import HeatCell, Totals

MESSAGES: Final = ("value", "topic", "timestamp")
PARSED: Final = "outcome TINYINT, event_time TIMESTAMP, car STRING, cell BIGINT, speed BIGINT"
RECORDS: Final = StructType([StructField("key", BinaryType()), StructField("value", BinaryType())])
STATE: Final = StructType([StructField("state", BinaryType())])


def positions(messages: DataFrame, grid: Grid) -> DataFrame:
    """One row for each message, with its outcome; `event_time` is null if it may not move the watermark."""

    def parse_all(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield parse(batch, grid)
        _spare_garbage_collection()

    parsed = messages.select(*MESSAGES).mapInArrow(parse_all, PARSED)
    return parsed.selectExpr("outcome", "event_time", "xxhash64(car, event_time) AS key", "cell", "speed")


def counted(found: DataFrame, shape: Shape, watermark_ms: int) -> DataFrame:
    """The records of the heat map, in the order in which they are to be written: totals are the last."""
    return (
        found.withWatermark("event_time", f"{watermark_ms} milliseconds")
        .selectExpr("0 AS everything", "*")
        .groupBy("everything")
        # Without a timeout Spark leaves late rows to us, who count them, instead of dropping them.
        .applyInPandasWithState(_counter(shape), RECORDS, STATE, "update", "NoTimeout")
        .select("key", "value")
    )


def _counter(shape: Shape) -> Callable[..., Iterator[pd.DataFrame]]:
    def count(_: Any, batches: Iterable[pd.DataFrame], group: GroupState) -> Iterator[pd.DataFrame]:
        before = decode(bytes(group.get[0]), shape) if group.exists else State()
        done = tally(before, _positions(list(batches)), group.getCurrentWatermarkMs(), shape)
        group.update((encode(done.state, shape),))
        records: list[HeatCell | Totals] = [*done.cells, done.totals]
        yield pd.DataFrame(
            {"key": [record.key for record in records], "value": [record.to_json() for record in records]}
        )
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
