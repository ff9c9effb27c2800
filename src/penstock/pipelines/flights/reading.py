"""Reading the two files: by Arrow where it can open the path, else by Spark itself, with the same results.

What Spark reads are rows of strings, the needed columns and `rejected` with the reason for lines that cannot
be used, as csv_blocks.py makes them; the itineraries then go through the same reduction.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from penstock.pipelines.flights.csv_blocks import (
    LINE_BYTES_MAX,
    NOT_UTF8,
    REJECTED,
    TOO_LONG,
    WRONG_WIDTH,
    read_range,
)
from penstock.pipelines.flights.csv_source import (
    RANGE_BYTES,
    RangeReader,
    arrow_can_open,
    inspect,
    open_file,
    plan_ranges,
)
from penstock.pipelines.flights.geography import Airports
from penstock.pipelines.flights.header import CsvError, parse_header
from penstock.pipelines.flights.reduction import DDL, reduce_rows


@dataclass(frozen=True, slots=True)
class CsvFile:
    path: str
    columns: Sequence[str]
    delimiter: str
    by_spark: bool = False
    """Use Spark's own reader, also where Arrow could open the path."""
    range_bytes: int = RANGE_BYTES

    @property
    def opened_by_spark(self) -> bool:
        return self.by_spark or not arrow_can_open(self.path)

    def check(self) -> None:
        """A CsvError for a file that cannot be used; only paths that need Spark are not looked at."""
        if not self.opened_by_spark:
            inspect(self.path, self.columns, self.delimiter)


def read_airports(spark: SparkSession, file: CsvFile) -> Airports:
    """To the driver: an airports file is small."""
    if file.opened_by_spark:
        rows = read_by_spark(spark, file).where(f"{REJECTED} IS NULL").drop(REJECTED).collect()
        return Airports.of_rows(rows)
    layout, start, size = inspect(file.path, file.columns, file.delimiter)
    with open_file(file.path) as opened:
        batches = list(read_range(opened, start, size, layout))
    return Airports.of_rows(
        row
        for batch in batches
        for row in zip(*(batch[name].to_pylist() for name in file.columns), strict=True)
    )


def read_itineraries(
    spark: SparkSession, file: CsvFile, airports: Airports, fastest_of_all: bool = False
) -> DataFrame:
    """What reduction.py makes of the file's rows."""
    if file.opened_by_spark:
        reduce = partial(reduce_rows, airports=airports, fastest_of_all=fastest_of_all)
        return read_by_spark(spark, file).mapInArrow(reduce, DDL)
    layout, start, size = inspect(file.path, file.columns, file.delimiter)
    cores = spark.sparkContext.defaultParallelism
    ranges = plan_ranges(start, size, file.range_bytes, cores)
    # One task for each range, and one Python process for each core: a data source in Python would start four
    # more, only to plan.
    numbers = spark.range(0, len(ranges), 1, len(ranges))
    return numbers.mapInArrow(RangeReader(file.path, layout, ranges, airports, fastest_of_all), DDL)


def read_by_spark(spark: SparkSession, file: CsvFile) -> DataFrame:
    lines = spark.read.option("lineSep", "\n").text(as_uri(file))
    try:
        first = lines.first()
    except AnalysisException as error:
        raise CsvError(f"{file.path}: {error.getCondition() or str(error).splitlines()[0]}") from error
    header = "" if first is None else str(first["value"])
    layout = parse_header(header.encode(), file.columns, file.delimiter, file.path)
    line = F.regexp_replace("value", r"\r\z", "")
    fields = F.split("line", re.escape(file.delimiter))
    rejected = (
        F.when(F.octet_length("line") > LINE_BYTES_MAX, TOO_LONG)
        .when(~F.is_valid_utf8("value"), NOT_UTF8)
        .when(F.size("fields") != layout.width, WRONG_WIDTH)
    )
    columns = zip(layout.columns, layout.indexes, strict=True)
    return (
        # The header is the first line of the first partition; another line like it is a bad row.
        lines.where(F.monotonically_increasing_id() != 0)
        .select("value", line.alias("line"))
        .where("line <> ''")
        .select("value", "line", fields.alias("fields"))
        .select("fields", rejected.alias(REJECTED))
        .select(
            *(
                F.when(F.col(REJECTED).isNull(), F.get("fields", F.lit(at))).alias(name)
                for name, at in columns
            ),
            REJECTED,
        )
    )


def as_uri(file: CsvFile) -> str:
    """Spark reads a path without a scheme from the cluster's file system; the user means this machine's."""
    if "://" in file.path:
        return file.path
    import pathlib

    return pathlib.Path(file.path).absolute().as_uri()
