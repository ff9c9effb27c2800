"""One CSV file as ranges of bytes, which tasks parse with Arrow and reduce where they read them.

What comes out is described in reduction.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import fs

from penstock.pipelines.flights.csv_blocks import read_header, read_range
from penstock.pipelines.flights.header import CsvError, Layout
from penstock.pipelines.flights.reduction import reduce_rows

if TYPE_CHECKING:
    from penstock.pipelines.flights.geography import Airports

RANGE_BYTES: Final = 512 * 1024 * 1024
"""Large, as every range is counted by itself and is a task in every query. Memory does not depend on it."""
COMPRESSED: Final = (".bz2", ".deflate", ".gz", ".lz4", ".snappy", ".zst")
"""Spark's reader knows these; they cannot be read from the middle."""


@dataclass(frozen=True, slots=True)
class ByteRange:
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class RangeReader:
    """Called by a task with the numbers of its ranges."""

    path: str
    layout: Layout
    ranges: Sequence[ByteRange]
    airports: Airports
    fastest_of_all: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                asked = self.ranges[number]
                with open_file(self.path) as file:
                    rows = read_range(file, asked.start, asked.end, self.layout)
                    yield from reduce_rows(rows, self.airports, self.fastest_of_all)


def plan_ranges(start: int, end: int, range_bytes: int, parallelism: int) -> list[ByteRange]:
    """Ranges of equal size over [start, end), one empty range if there is nothing.

    Their number is a multiple of `parallelism`, so that all cores finish together.
    """
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
