"""The data source `penstock-itineraries`: one CSV file, parsed by Arrow in ranges of bytes and reduced there.

Options: `path`; `airports`, the positions as `Airports.to_json` writes them; `rangeBytes`, at most so much of
the file per task; `parallelism`, of which the number of tasks is a multiple, so that all cores finish
together. What it gives is described in reduction.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import fs
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from penstock.pipelines.flights.csv_blocks import read_header, read_range
from penstock.pipelines.flights.geography import Airports
from penstock.pipelines.flights.header import CsvError, Layout
from penstock.pipelines.flights.reduction import DDL, reduce_rows
from penstock.pipelines.flights.schemas import ITINERARY_COLUMNS, ITINERARY_DELIMITER

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

RANGE_BYTES: Final = 512 * 1024 * 1024
"""Large, as every range is counted by itself and is a task in every query. Memory does not depend on it."""
COMPRESSED: Final = (".bz2", ".deflate", ".gz", ".lz4", ".snappy", ".zst")
"""Spark's reader knows these; they cannot be read from the middle."""


@dataclass(frozen=True)
class ByteRange(InputPartition):
    start: int
    end: int


class ItinerariesDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "penstock-itineraries"

    def schema(self) -> str:
        return DDL

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark gives it
        return ItinerariesReader(self.options)


class ItinerariesReader(DataSourceReader):
    """Made on the driver, which reads the header once; tasks get the layout with the pickled reader."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.path = options["path"]
        self.range_bytes = int(options["rangeBytes"])
        self.parallelism = int(options["parallelism"])
        self.airports = options["airports"]
        self.layout, self.start, self.size = inspect(self.path, ITINERARY_COLUMNS, ITINERARY_DELIMITER)

    def partitions(self) -> Sequence[ByteRange]:
        return plan_ranges(self.start, self.size, self.range_bytes, self.parallelism)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ByteRange)
        airports = Airports.from_json(self.airports)
        with open_file(self.path) as file:
            yield from reduce_rows(read_range(file, partition.start, partition.end, self.layout), airports)


def plan_ranges(start: int, end: int, range_bytes: int, parallelism: int) -> list[ByteRange]:
    """Ranges of equal size over [start, end); one empty range if there is nothing."""
    number = max(1, math.ceil((end - start) / range_bytes))
    number = min(math.ceil(number / parallelism) * parallelism, max(1, end - start))
    cuts = [start + (end - start) * index // number for index in range(number + 1)]
    return [ByteRange(cuts[index], cuts[index + 1]) for index in range(number)]


def inspect(path: str, columns: Sequence[str], delimiter: str) -> tuple[Layout, int, int]:
    """The layout of a file, where its lines begin and its size; a CsvError if it cannot be used."""
    filesystem, inner = locate(path)
    try:
        info = filesystem.get_file_info(inner)
        if info.type == fs.FileType.NotFound:
            raise CsvError(f"{path}: no such file")
        if info.type == fs.FileType.Directory:
            raise CsvError(f"{path}: is a folder, not a file")
        with filesystem.open_input_file(inner) as file:
            layout, start = read_header(file, columns, delimiter, path)
            return layout, start, file.size()
    except OSError as error:
        raise CsvError(f"{path}: {first_sentence(error)}") from error


def arrow_can_open(path: str) -> bool:
    """Local files, and `file:`; other schemes are Spark's business, as it has the cluster's configuration."""
    if path.lower().endswith(COMPRESSED):
        return False
    return "://" not in path or path.startswith("file://")


def open_file(path: str) -> pa.NativeFile:
    filesystem, inner = locate(path)
    return filesystem.open_input_file(inner)


def locate(path: str) -> tuple[fs.FileSystem, str]:
    if path.startswith("file:"):
        filesystem, inner = fs.FileSystem.from_uri(path)
        return filesystem, inner
    return fs.LocalFileSystem(), path


def first_sentence(error: OSError) -> str:
    return error.strerror or (str(error).splitlines() or [type(error).__name__])[0]
