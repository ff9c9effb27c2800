"""Result rows as CSV text: made by the workers, batch by batch, so that the driver only copies chunks.

Numbers are in the shortest form that reads back as the same number, which Arrow knows and Java 17 does not.
There is no quoting in the results, because the fields come from files without quoting.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial, reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

CHUNKS: Final = "rows bigint, text string"


def chunks(results: Mapping[str, DataFrame], key: str | None = None) -> DataFrame:
    """Lines of text, with the `query` they belong to and how many there are.

    All results in one DataFrame, so that Spark works on them at the same time. Where they are of several
    tables, their first column `key`, by which they are sorted, says of which, and is no part of the text.
    """
    columns = CHUNKS if key is None else f"{key} string, {CHUNKS}"
    tagged = [
        # Where there are many partitions, there is little in each: a Python worker takes several.
        rows.coalesce(rows.sparkSession.sparkContext.defaultParallelism)
        .mapInArrow(to_chunks if key is None else partial(to_keyed_chunks, key=key), columns)
        .selectExpr(f"'{query}' AS query", "*")
        for query, rows in results.items()
    ]
    return reduce(DataFrame.union, tagged)


def to_chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            rows, text = pa.array([batch.num_rows], pa.int64()), pa.array([csv_text(batch)], pa.string())
            yield pa.RecordBatch.from_arrays([rows, text], names=["rows", "text"])


def to_keyed_chunks(batches: Iterator[pa.RecordBatch], key: str) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        start = 0
        for run in pc.run_end_encode(batch[key]).run_ends.to_pylist() if batch.num_rows else ():
            part = batch.slice(start, run - start)
            text = csv_text(part.drop_columns([key]))
            columns = {
                key: part[key].slice(0, 1),
                "rows": pa.array([part.num_rows], pa.int64()),
                "text": pa.array([text], pa.string()),
            }
            yield pa.RecordBatch.from_pydict(columns)
            start = run


def csv_text(batch: pa.RecordBatch) -> str:
    fields = [pc.cast(column, pa.string()) for column in batch.columns]
    lines = pc.binary_join_element_wise(*fields, ",")
    return "\n".join(lines.to_pylist()) + "\n"
