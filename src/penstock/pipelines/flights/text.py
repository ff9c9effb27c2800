"""Result rows as CSV text: made by the workers, batch by batch, so that the driver only copies chunks.

Numbers are in the shortest form that reads back as the same number, which Arrow knows and Java 17 does not.
There is no quoting in the results, because the fields come from files without quoting.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

LEFT_OUT: Final = "left_out"
CHUNKS: Final = "rows bigint, text string, left_out string"


def chunks(results: Mapping[str, DataFrame]) -> DataFrame:
    """Lines of text with their `query` and number; of rows with a `left_out`, that reason and their number.

    All results in one DataFrame, so that Spark works on them at the same time.
    """
    tagged = [
        rows.mapInArrow(to_chunks, CHUNKS).selectExpr(f"'{query}' AS query", "*")
        for query, rows in results.items()
    ]
    return reduce(DataFrame.union, tagged)


def to_chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if LEFT_OUT in batch.schema.names:
            for counted in pc.value_counts(batch[LEFT_OUT]).to_pylist():
                if counted["values"] is not None:
                    yield chunk(counted["counts"], None, counted["values"])
            batch = batch.filter(pc.is_null(batch[LEFT_OUT])).drop_columns([LEFT_OUT])
        if batch.num_rows:
            yield chunk(batch.num_rows, csv_text(batch), None)


def csv_text(batch: pa.RecordBatch) -> str:
    fields = [pc.cast(column, pa.string()) for column in batch.columns]
    lines = pc.binary_join_element_wise(*fields, ",")
    return "\n".join(lines.to_pylist()) + "\n"


def chunk(rows: int, text: str | None, left_out: str | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "rows": pa.array([rows], pa.int64()),
            "text": pa.array([text], pa.string()),
            "left_out": pa.array([left_out], pa.string()),
        }
    )
