"""Rows as messages: which columns are written, what no message can be made of, what `produce` is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow.compute as pc

from penstock.spark.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

UNASSIGNED: Final = -1
"""As librdkafka calls a partition that its partitioner may choose."""
COLUMNS: Final = ("topic", "value", "key", "partition", "headers")
ROWS_AT_ONCE: Final = 1_000
BYTES_AT_ONCE: Final = 8 * 1024 * 1024
"""Of a record batch, what is turned to Python values at the same time."""

Row = tuple[str, bytes | str | None, bytes | str | None, int, list[tuple[str, bytes | None]] | None]
"""Topic, value, key, partition and headers."""


def written(batch: pa.RecordBatch, topic: str | None) -> pa.RecordBatch:
    """Only the columns that are written; the option `topic` wins over the column. Checks every row."""
    names = [name for name in COLUMNS if name in batch.schema.names and (name != "topic" or topic is None)]
    found = batch.select(names)
    if "topic" in names and found.column("topic").null_count:
        raise SourceError("column 'topic' is null in a row")
    if "partition" in names:
        least = pc.min(found.column("partition")).as_py()
        if least is not None and least < 0:
            raise SourceError(f"column 'partition' is {least} in a row")
    return found


def rows(batch: pa.RecordBatch, topic: str | None) -> Iterator[Row]:
    """The rows of a batch that went through `written`, in their order."""
    step = max(1, min(ROWS_AT_ONCE, BYTES_AT_ONCE * batch.num_rows // max(1, batch.nbytes)))
    for start in range(0, batch.num_rows, step):
        yield from _python_rows(batch.slice(start, step), topic)


def _python_rows(batch: pa.RecordBatch, topic: str | None) -> Iterator[Row]:
    def column(name: str, missing: Any = None) -> Sequence[Any]:
        if name not in batch.schema.names:
            return [missing] * batch.num_rows
        values: list[Any] = batch.column(name).to_pylist()
        return values

    topics = column("topic", topic)
    columns = zip(topics, column("value"), column("key"), column("partition"), column("headers"), strict=True)
    for name, value, key, partition, headers in columns:
        pairs = [(header["key"], header["value"]) for header in headers] if headers else None
        yield name, value, key, UNASSIGNED if partition is None else partition, pairs
