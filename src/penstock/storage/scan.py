"""Walking over the batches in a segment's bytes, with every check there is.

Used where bytes are not trusted: recovery and the rebuilding of an index. The scan goes through a file in
large pieces and yields (position, header) for each batch that is whole, has a valid CRC and continues the
order of offsets; it ends by raising BatchError at the first byte of which that is not true.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from penstock.wire.batch import (
    HEADER_SIZE,
    BatchError,
    BatchHeader,
    check_batch,
    read_header,
)

PIECE_BYTES = 4 << 20

Read = Callable[[int, int], bytes]
"""(size, position) to bytes; fewer only at the end of the file."""

OFFSET_DISTANCE_MAX = 1 << 31
"""Compaction leaves gaps; a longer one is not believed, for no CRC protects the base offset."""


def scan_batches(read: Read, start: int, end: int, next_offset: int) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each valid batch in [start, end); the first offset is at least `next_offset`."""
    position = start
    piece = b""
    piece_start = start
    while position < end:
        view, piece, piece_start = _window(read, piece, piece_start, position, end)
        header = check_batch(view, position)
        check_order(header, next_offset, position)
        yield position, header
        next_offset = header.next_offset
        position += header.size


def check_order(header: BatchHeader, next_offset: int, position: int) -> None:
    if header.last_offset_delta < 0:
        raise BatchError(position, f"last offset delta {header.last_offset_delta}")
    if not next_offset <= header.base_offset <= next_offset + OFFSET_DISTANCE_MAX:
        raise BatchError(position, f"offset {header.base_offset} where {next_offset} is due")


def find_valid_batch(read: Read, start: int, end: int, next_offset: int) -> tuple[int, BatchHeader] | None:
    """The first place at or after `start` where a valid batch begins that could belong to this log.

    Offsets near `next_offset` share its upper four bytes (or those of the next 2^32), and the length is
    well below 2^31, so a regular expression finds the few candidates worth a CRC.
    """
    highs = {(next_offset >> 32).to_bytes(4), ((next_offset >> 32) + 1).to_bytes(4)}
    pattern = re.compile(
        b"(?=(?:"
        + b"|".join(map(re.escape, sorted(highs)))
        + b")[\x00-\xff]{4}[\x00-\x7f][\x00-\xff]{7}\x02)"
    )
    piece_start = start
    while piece_start < end:
        piece = read(min(PIECE_BYTES + HEADER_SIZE, end - piece_start), piece_start)
        for match in pattern.finditer(piece, 0, len(piece)):
            found = _valid_at(read, piece_start + match.start(), end, next_offset)
            if found is not None:
                return piece_start + match.start(), found
        piece_start += PIECE_BYTES
    return None


def _valid_at(read: Read, position: int, end: int, next_offset: int) -> BatchHeader | None:
    if position + HEADER_SIZE > end:
        return None
    head = read(HEADER_SIZE, position)
    if len(head) < HEADER_SIZE:
        return None
    header = read_header(head)
    near = next_offset <= header.base_offset <= next_offset + OFFSET_DISTANCE_MAX
    if not near or header.size < HEADER_SIZE or position + header.size > end:
        return None
    try:
        return check_batch(memoryview(read(header.size, position)), position)
    except BatchError:
        return None


def _window(
    read: Read, piece: bytes, piece_start: int, position: int, end: int
) -> tuple[memoryview, bytes, int]:
    """A view that begins at `position` and holds the whole batch there, if the file does."""
    available = piece_start + len(piece) - position
    needed = HEADER_SIZE
    if available >= HEADER_SIZE:
        needed = max(HEADER_SIZE, read_header(piece, position - piece_start).size)
    if available < needed and piece_start + len(piece) < end:
        piece = read(min(max(PIECE_BYTES, needed), end - position), position)
        piece_start = position
        if len(piece) >= HEADER_SIZE:
            needed = read_header(piece).size
            if len(piece) < needed <= end - position:
                piece = read(needed, position)
    return memoryview(piece)[position - piece_start :], piece, piece_start
