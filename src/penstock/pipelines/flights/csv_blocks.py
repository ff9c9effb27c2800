"""From the bytes of a CSV file to Arrow batches, a bounded block at a time.

The files have no quoting, so every line feed ends a line, and a file can be cut anywhere: a range
[start, end) of bytes owns the lines that begin in it. Its reader looks for the first line that begins at or
after `start` and reads on past `end` to the end of its last line. Only one block is in memory, whatever the
size of the range.

A block of ordinary lines is parsed by `pyarrow.csv`. Arrow would take a carriage return alone for the end of
a line, and would pass on bytes that are not UTF-8; a block with either is parsed line by line in Python,
which is slow and rare. Lines that cannot be used become rows with a reason in the column `rejected`: nothing
is dropped but empty lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import pyarrow as pa
from pyarrow import csv

from penstock.pipelines.flights.header import CsvError, Layout, parse_header

BLOCK_BYTES: Final = 4 * 1024 * 1024
LINE_BYTES_MAX: Final = 1024 * 1024
"""A longer line is no row of any table we know, and must not fill the memory."""
REJECTED: Final = "rejected"
TOO_LONG: Final = "line too long"
NOT_UTF8: Final = "invalid UTF-8"
WRONG_WIDTH: Final = "wrong column count"
LINE_ENDS: Final = b"\r\n"


class RandomAccess(Protocol):
    """What is needed of a file: pyarrow.NativeFile, and BytesIO in tests."""

    def seek(self, position: int, /) -> int: ...
    def read(self, size: int, /) -> bytes: ...


def schema_of(layout: Layout) -> pa.Schema:
    return pa.schema([(name, pa.string()) for name in (*layout.columns, REJECTED)])


def read_header(file: RandomAccess, columns: Sequence[str], delimiter: str, path: str) -> tuple[Layout, int]:
    """The layout, and where the first line after the header begins."""
    file.seek(0)
    start = file.read(LINE_BYTES_MAX)
    end = start.find(b"\n") + 1
    if not end and len(start) == LINE_BYTES_MAX:
        raise CsvError(f"{path}: the header line is longer than {LINE_BYTES_MAX} bytes")
    end = end or len(start)
    return parse_header(start[:end], columns, delimiter, path), end


def read_range(
    file: RandomAccess, start: int, end: int, layout: Layout, *, block_bytes: int = BLOCK_BYTES
) -> Iterator[pa.RecordBatch]:
    """The lines that begin in [start, end); `start` must not be in the header."""
    for block in blocks(file, start, end, block_bytes):
        if block is None:
            yield rejects(layout, [TOO_LONG])
        else:
            yield from parse_block(block, layout)


def blocks(file: RandomAccess, start: int, end: int, block_bytes: int) -> Iterator[bytes | None]:
    """Whole lines, as many as fit into a block; None stands for one line that is longer than allowed."""
    # One byte earlier: if that is a line feed, a line begins right at `start`.
    position = start - 1
    file.seek(position)
    rest, skipping = b"", True
    while True:
        data = file.read(block_bytes)
        at_end = not data
        position += len(data)
        if skipping and data:
            cut = data.find(b"\n") + 1
            if not cut:
                continue
            skipping, data = False, data[cut:]
        begin = position - len(data) - len(rest)
        block = rest + data
        if begin >= end or (at_end and not block):
            return
        # The last line to read is the one that covers the byte before `end`.
        last = block.find(b"\n", end - 1 - begin) + 1 if begin + len(block) >= end else 0
        cut = last or (len(block) if at_end else block.rfind(b"\n") + 1)
        if cut:
            yield from checked(block[:cut])
        if last or at_end:
            return
        rest = block[cut:]
        if len(rest) > LINE_BYTES_MAX:
            yield None
            rest, skipping = b"", True


def checked(block: bytes) -> Iterator[bytes | None]:
    """The block, without lines that are longer than allowed; a shorter block cannot have any."""
    if len(block) <= LINE_BYTES_MAX:
        yield block
        return
    begin = at = 0
    while at < len(block):
        # Jump as far as a line may reach and look back: most jumps find a line feed.
        found = block.rfind(b"\n", at, at + LINE_BYTES_MAX + 1) + 1
        if found:
            at = found
            continue
        if begin < at:
            yield block[begin:at]
        if len(block) - at <= LINE_BYTES_MAX:
            begin = at
            break
        yield None
        at = begin = block.find(b"\n", at) + 1 or len(block)
    if begin < len(block):
        yield block[begin:]


def parse_block(block: bytes, layout: Layout) -> Iterator[pa.RecordBatch]:
    if is_ordinary(block):
        yield from parse_ordinary(block, layout)
    else:
        yield parse_lines(block, layout)


def is_ordinary(block: bytes) -> bool:
    if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
        return False
    if block.isascii():
        return True
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def parse_ordinary(block: bytes, layout: Layout) -> Iterator[pa.RecordBatch]:
    if block[:1] in LINE_ENDS and not block.strip(LINE_ENDS):
        return  # nothing but empty lines, which Arrow calls an error
    names = [str(index) for index in range(layout.width)]
    needed = [names[index] for index in layout.indexes]
    wrong = 0

    def skip(_row: csv.InvalidRow) -> str:
        nonlocal wrong
        wrong += 1
        return "skip"

    table = csv.read_csv(
        pa.BufferReader(block),
        read_options=csv.ReadOptions(column_names=names, use_threads=False, block_size=len(block) + 1),
        parse_options=csv.ParseOptions(
            delimiter=layout.delimiter, quote_char=False, invalid_row_handler=skip
        ),
        convert_options=csv.ConvertOptions(
            include_columns=needed, column_types=dict.fromkeys(needed, pa.string()), check_utf8=False
        ),
    )
    for batch in table.to_batches():
        if batch.num_rows:
            arrays = [*batch.columns, pa.nulls(batch.num_rows, pa.string())]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema_of(layout))
    if wrong:
        yield rejects(layout, [WRONG_WIDTH] * wrong)


def parse_lines(block: bytes, layout: Layout) -> pa.RecordBatch:
    rows: list[list[str | None]] = []
    rejected: list[str] = []
    for line in block.split(b"\n"):
        stripped = line.removesuffix(b"\r")
        if not stripped:
            continue
        try:
            fields = stripped.decode().split(layout.delimiter)
        except UnicodeDecodeError:
            rejected.append(NOT_UTF8)
            continue
        if len(fields) != layout.width:
            rejected.append(WRONG_WIDTH)
            continue
        rows.append([*(fields[index] for index in layout.indexes), None])
    columns: Sequence[Sequence[str | None]] = list(zip(*rows, strict=True)) or [()] * len(schema_of(layout))
    good = pa.RecordBatch.from_arrays(
        [pa.array(column, pa.string()) for column in columns], schema=schema_of(layout)
    )
    return pa.concat_batches([good, rejects(layout, rejected)])


def rejects(layout: Layout, reasons: Sequence[str]) -> pa.RecordBatch:
    nulls = pa.nulls(len(reasons), pa.string())
    arrays = [*([nulls] * len(layout.columns)), pa.array(reasons, pa.string())]
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(layout))
