"""A data source that gives the records of the Flights service, and puts the chunks among them aside.

Spark sees what a record is and where its bytes are, and never the bytes: a chunk is needed as a whole,
perhaps much later, by a task that reads a file faster than anything else. So the tasks that read the log
write the values into segments, one after the other:

    <staging>/raw/<topic>-<partition>-<first offset>-<name>.seg

A segment begins with a line feed, and every chunk ends with one, so that it can be cut anywhere as a CSV
file can. Large ranges of a partition are read by several tasks: all chunks of a job are in one partition.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import IO, TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from penstock.flights.chunks import ChunkError, check_chunk
from penstock.flights.records import Chunk, RecordError, parse_upload
from penstock.flights.topics import FILE_TOPICS
from penstock.pipelines.flights.service.entry import Piece
from penstock.pipelines.flights.service.folder import new_name, put_in_place
from penstock.pipelines.flights.service.ledger import Arrival
from penstock.spark.arrow import HEADERS_TYPE
from penstock.spark.consumer import read_ranges
from penstock.spark.datasource import PenstockDataSource, PenstockStreamReader, RangePartition
from penstock.spark.offsets import OffsetRange, bundles, from_json, ranges
from penstock.spark.options import ReadOptions, read_options
from penstock.spark.schema import HEADERS, READ_SCHEMA, arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import Row
    from pyspark.sql.datasource import InputPartition

    from penstock.spark.datasource import JsonOffsets

FORMAT: Final = "penstock-flights"
STAGING: Final = "staging"
"""The option with the folder of segments. All others are those of `penstock`."""
RANGE_OFFSETS: Final = 32
"""A range is not cut into smaller ones."""
MESSAGE_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "headers", "value")
COLUMNS: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp_ms", LongType()),
        StructField("key", BinaryType()),
        StructField("headers", HEADERS),
        StructField("path", StringType()),
        StructField("position", LongType()),
        StructField("length", LongType()),
        StructField("head", BinaryType()),
        StructField("fault", StringType()),
        StructField("value", BinaryType()),
    ]
)
ARROW_COLUMNS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("key", pa.binary()),
        ("headers", HEADERS_TYPE),
        ("path", pa.string()),
        ("position", pa.int64()),
        ("length", pa.int64()),
        ("head", pa.binary()),
        ("fault", pa.string()),
        ("value", pa.binary()),
    ]
)
_FILES: Final = {topic: file for file, topic in FILE_TOPICS.items()}


class FlightsDataSource(PenstockDataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        self._read_options()
        return COLUMNS

    def streamReader(self, schema: StructType) -> FlightsStreamReader:  # noqa: ARG002, N802
        return FlightsStreamReader(self._read_options().for_stream(), self.options[STAGING])

    def _read_options(self) -> ReadOptions:
        return read_options({name: value for name, value in self.options.items() if name != STAGING})


class FlightsStreamReader(PenstockStreamReader):
    def __init__(self, options: ReadOptions, staging: str) -> None:
        super().__init__(options, arrow_schema(StructType([READ_SCHEMA[name] for name in MESSAGE_COLUMNS])))
        self._staging = staging

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> list[InputPartition]:
        tasks = self._options.max_input_partitions or 1
        found = ranges(from_json(start), from_json(end))
        return [RangePartition(bundle) for bundle in bundles(cut(found, tasks), tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:
            return
        for asked in partition.value:
            with Segment(self._staging, asked) as segment:
                for batch in read_ranges([asked], self._options, self._schema):
                    segment.add(batch)
            yield segment.references()


def cut(found: list[OffsetRange], parts: int) -> list[OffsetRange]:
    """The same offsets in ranges that so many tasks can share."""
    total = sum(each.end - each.start for each in found)
    length = max(RANGE_OFFSETS, -(-total // parts))
    return [
        OffsetRange(each.partition, start, min(start + length, each.end))
        for each in found
        for start in range(each.start, each.end, length)
    ]


class Segment:
    """The records of a range: their values in a file, if they are chunks, and references to them."""

    def __init__(self, staging: str, asked: OffsetRange) -> None:
        self._path = os.path.join(staging, f"{asked.partition}-{asked.start}-{new_name()}.seg")
        self._file_name = _FILES.get(asked.partition.topic)
        self._open = ExitStack()
        self._file: IO[bytes] | None = None
        self._end = 0
        self._rows: list[dict[str, Any]] = []

    def __enter__(self) -> Segment:
        return self

    def __exit__(self, *failed: Any) -> None:
        self._open.__exit__(*failed)

    def add(self, messages: pa.RecordBatch) -> None:
        timestamps = messages["timestamp"].cast(pa.int64()).to_pylist()
        for at, timestamp in enumerate(timestamps):
            row = {name: messages[name][at].as_py() for name in ("topic", "partition", "offset", "key")}
            row |= {"timestamp_ms": timestamp // 1000, "headers": messages["headers"][at].as_py()}
            value = messages["value"][at].as_py()
            row |= {"value": value} if self._file_name is None else self._chunk(row["headers"], value or b"")
            self._rows.append(row)

    def references(self) -> pa.RecordBatch:
        columns = {name: [row.get(name) for row in self._rows] for name in ARROW_COLUMNS.names}
        return pa.RecordBatch.from_pydict(columns, ARROW_COLUMNS)

    def _chunk(self, headers: list[dict[str, Any]] | None, value: bytes) -> dict[str, Any]:
        assert self._file_name is not None
        try:
            upload = parse_upload((each["key"], each["value"]) for each in headers or ())
        except RecordError:
            return {}  # which the ledger finds, too
        if not isinstance(upload, Chunk):
            return {}
        try:
            check_chunk(self._file_name, upload.message, value)
        except ChunkError as error:
            return {"fault": str(error)}
        self._write(value)
        head = value[: value.index(b"\n") + 1] if upload.message == 0 else None
        position = self._end - len(value)
        return {"path": self._path, "position": position, "length": len(value), "head": head}

    def _write(self, data: bytes) -> None:
        if self._file is None:
            self._file = self._open.enter_context(put_in_place(self._path, lasting=False))
            self._end = self._file.write(b"\n")
        self._end += self._file.write(data)


def arrival(row: Row) -> Arrival:
    """What the ledger is told of a reference."""
    piece = None if row["path"] is None else Piece(row["path"], row["position"], row["length"])
    return Arrival(
        topic=row["topic"],
        timestamp_ms=row["timestamp_ms"],
        key=_bytes(row["key"]),
        headers=[(header["key"], _bytes(header["value"])) for header in row["headers"] or ()],
        piece=piece,
        head=_bytes(row["head"]),
        fault=row["fault"],
        value=_bytes(row["value"]),
    )


def _bytes(value: bytearray | bytes | None) -> bytes | None:
    return None if value is None else bytes(value)
