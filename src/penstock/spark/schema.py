"""The columns that are read, which are those of Spark's Kafka source, and the columns that can be written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.spark.arrow import SCHEMA
from penstock.spark.errors import SourceError

if TYPE_CHECKING:
    from penstock.spark.options import WriteOptions

HEADERS: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
READ_SCHEMA: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField("headers", HEADERS),
    ]
)
WRITTEN: Final[dict[str, tuple[DataType, ...]]] = {
    "value": (BinaryType(), StringType()),
    "key": (BinaryType(), StringType()),
    "topic": (StringType(),),
    "partition": (IntegerType(),),
    "headers": (HEADERS,),
}
NOT_WRITTEN: Final = ("offset", "timestamp", "timestampType")
"""Columns of what was read, that a copy of a topic may carry along: the broker gives new ones."""


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow form of the columns to read: all, or those that the user asked for with `.schema(…)`."""
    for field in schema.fields:
        if field.name not in READ_SCHEMA.names:
            raise SourceError(
                f"column {field.name!r} cannot be read; there are {', '.join(READ_SCHEMA.names)}"
            )
        if field.dataType != READ_SCHEMA[field.name].dataType:
            there = READ_SCHEMA[field.name].dataType.simpleString()
            raise SourceError(f"column {field.name!r} is {there}, not {field.dataType.simpleString()}")
    return pa.schema([SCHEMA.field(name) for name in schema.names])


def check_written_columns(schema: StructType, options: WriteOptions) -> None:
    if "value" not in schema.names:
        raise SourceError("column 'value' is missing; it is what is written")
    if "topic" not in schema.names and options.topic is None:
        raise SourceError("where to? there is neither a column 'topic' nor the option 'topic'")
    for field in schema.fields:
        if field.name in NOT_WRITTEN:
            continue
        fitting = WRITTEN.get(field.name)
        if fitting is None:
            raise SourceError(f"column {field.name!r} cannot be written; there are {', '.join(WRITTEN)}")
        if not any(_same(field.dataType, kind) for kind in fitting):
            names = " or ".join(kind.simpleString() for kind in fitting)
            raise SourceError(f"column {field.name!r} is {field.dataType.simpleString()} and must be {names}")


def _same(found: DataType, wanted: DataType) -> bool:
    """Equal but for what may be null."""
    return found.simpleString() == wanted.simpleString()
