"""Chunks of CSV files: whole lines, at most so many bytes; the first has the header line. Pure.

Who sends a file cuts it here; who gets a chunk, the gateway or the service, judges it here. What is wrong
with single lines is counted by the queries and is no fault of the chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from penstock.pipelines.flights.header import CsvError, parse_header
from penstock.pipelines.flights.schemas import (
    AIRPORT_COLUMNS,
    AIRPORT_DELIMITER,
    ITINERARY_COLUMNS,
    ITINERARY_DELIMITER,
)

CHUNK_BYTES_MAX: Final = 512 * 1024
COLUMNS: Final = {
    "airports": (AIRPORT_COLUMNS, AIRPORT_DELIMITER),
    "itineraries": (ITINERARY_COLUMNS, ITINERARY_DELIMITER),
}


class ChunkError(ValueError):
    """A chunk, or a file, that cannot be used; the message is one line."""


def cut(read: Callable[[int], bytes], chunk_bytes: int = CHUNK_BYTES_MAX) -> Iterator[bytes]:
    """The chunks of a file, always the same for the same file. `read(n)` gives at most n bytes, none at the
    end. A last line without a line feed gets one."""
    rest, lines = b"", 0
    while True:
        data = read(chunk_bytes - len(rest)) if len(rest) < chunk_bytes else b""
        if data:
            rest += data
            if len(rest) < chunk_bytes:
                continue
        if not rest:
            return
        if not data and len(rest) < chunk_bytes and not rest.endswith(b"\n"):
            rest += b"\n"
        end = rest.rfind(b"\n") + 1
        if not end:
            raise ChunkError(
                f"line {lines + 1} is longer than {chunk_bytes} bytes, and so than any chunk may be"
            )
        lines += rest.count(b"\n", 0, end)
        yield rest[:end]
        rest = rest[end:]


def check_chunk(file: str, message: int, body: bytes) -> None:
    """ChunkError if it is not whole lines of text, or if the first has not the columns that are needed."""
    if not body:
        raise ChunkError("the chunk is empty")
    if len(body) > CHUNK_BYTES_MAX:
        raise ChunkError(f"the chunk has {len(body)} bytes; at most {CHUNK_BYTES_MAX} are allowed")
    if not body.endswith(b"\n"):
        raise ChunkError("the chunk does not end with a line feed: send whole lines")
    if b"\0" in body:
        raise ChunkError("the chunk has NUL bytes: it is no text")
    if message == 0:
        columns, delimiter = COLUMNS[file]
        try:
            parse_header(body[: body.index(b"\n") + 1], columns, delimiter, f"{file}.csv")
        except CsvError as error:
            raise ChunkError(str(error)) from error
