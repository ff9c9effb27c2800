"""A sparse index over one segment: at which byte is about which offset, and about which time.

One entry stands for roughly every `index_interval_bytes` of the segment: the base offset of a batch, its
position, and the largest timestamp of all batches *before* it. All three ascend, so both lookups are
bisections followed by a short walk over headers. The first batch needs no entry. On disk::

    4  magic "PIX1"
    4  CRC-32C of all that follows
    8  base offset of the segment
    8  covered size: bytes of the segment that are described here, and known to be on disk
    8  end offset: the next offset after the covered bytes
    8  first timestamp of the segment
    8  largest timestamp in the covered bytes
    8  number of entries n
    8n offsets, 8n positions, 8n timestamps
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import NamedTuple

from crc32c import crc32c

from penstock.wire.batch import NO_TIMESTAMP

_MAGIC = b"PIX1"
_START = struct.Struct(">4sI")
_FIELDS = struct.Struct(">6q")


class Mark(NamedTuple):
    """One entry: a batch begins here."""

    offset: int
    position: int
    max_timestamp_before: int


class SparseIndex:
    __slots__ = ("offsets", "positions", "timestamps")

    def __init__(self) -> None:
        self.offsets = array("q")
        self.positions = array("q")
        self.timestamps = array("q")

    def __len__(self) -> int:
        return len(self.offsets)

    def add(self, mark: Mark) -> None:
        self.offsets.append(mark.offset)
        self.positions.append(mark.position)
        self.timestamps.append(mark.max_timestamp_before)

    def floor(self, offset: int) -> Mark | None:
        """The last entry at or before `offset`; None means the start of the segment."""
        return self._mark(bisect_right(self.offsets, offset) - 1)

    def ceiling(self, offset: int) -> Mark | None:
        """The first entry at or after `offset`; None means the end of the segment."""
        at = bisect_left(self.offsets, offset)
        return self._mark(at) if at < len(self.offsets) else None

    def floor_position(self, position: int) -> Mark | None:
        """The last entry at or before a byte position."""
        return self._mark(bisect_right(self.positions, position) - 1)

    def ceiling_position(self, position: int) -> Mark | None:
        """The first entry at or after a byte position; None means the end of the segment."""
        at = bisect_left(self.positions, position)
        return self._mark(at) if at < len(self.positions) else None

    def floor_time(self, timestamp: int) -> Mark | None:
        """The last entry before which everything is older than `timestamp`."""
        return self._mark(bisect_left(self.timestamps, timestamp) - 1)

    def truncate(self, position: int) -> None:
        """Forget entries at or after a byte position."""
        at = bisect_left(self.positions, position)
        del self.offsets[at:], self.positions[at:], self.timestamps[at:]

    def copy(self) -> SparseIndex:
        other = SparseIndex()
        other.offsets, other.positions, other.timestamps = (
            self.offsets[:],
            self.positions[:],
            self.timestamps[:],
        )
        return other

    def _mark(self, at: int) -> Mark | None:
        return Mark(self.offsets[at], self.positions[at], self.timestamps[at]) if at >= 0 else None


class Extent:
    """How far a segment reaches in bytes, offsets and time, while it grows."""

    __slots__ = ("base_offset", "end_offset", "first_timestamp", "max_timestamp", "size")

    def __init__(self, base_offset: int, known: Extent | StoredIndex | None = None) -> None:
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.size = 0
        self.first_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP
        if known is not None:
            self.end_offset = known.end_offset
            self.size = known.covered if isinstance(known, StoredIndex) else known.size
            self.first_timestamp, self.max_timestamp = known.first_timestamp, known.max_timestamp

    def grow(self, size: int, end_offset: int, first_timestamp: int, max_timestamp: int) -> None:
        """Up to `size` bytes and `end_offset`, by batches with these timestamps."""
        if self.first_timestamp == NO_TIMESTAMP:
            self.first_timestamp = first_timestamp
        self.max_timestamp = max(self.max_timestamp, max_timestamp)
        self.end_offset = end_offset
        self.size = size

    def stored_index(self, index: SparseIndex) -> StoredIndex:
        return StoredIndex(
            self.base_offset, self.size, self.end_offset, self.first_timestamp, self.max_timestamp, index
        )


@dataclass(frozen=True, slots=True)
class StoredIndex:
    """An index together with what it covers, as its file holds it."""

    base_offset: int
    covered: int
    end_offset: int
    first_timestamp: int
    max_timestamp: int
    index: SparseIndex


def encode_index(stored: StoredIndex) -> bytes:
    index = stored.index
    body = _FIELDS.pack(
        stored.base_offset,
        stored.covered,
        stored.end_offset,
        stored.first_timestamp,
        stored.max_timestamp,
        len(index),
    ) + b"".join(_big_endian(column) for column in (index.offsets, index.positions, index.timestamps))
    return _START.pack(_MAGIC, crc32c(body)) + body


def decode_index(data: bytes) -> StoredIndex | None:
    """None when the bytes are not a whole, undamaged index."""
    if len(data) < _START.size + _FIELDS.size:
        return None
    magic, crc = _START.unpack_from(data)
    if magic != _MAGIC or crc32c(memoryview(data)[_START.size :]) != crc:
        return None
    base_offset, covered, end_offset, first, largest, count = _FIELDS.unpack_from(data, _START.size)
    columns = data[_START.size + _FIELDS.size :]
    if len(columns) != 24 * count:
        return None
    index = SparseIndex()
    for at, column in enumerate((index.offsets, index.positions, index.timestamps)):
        column.frombytes(columns[8 * count * at : 8 * count * (at + 1)])
        if sys.byteorder == "little":
            column.byteswap()
    return StoredIndex(base_offset, covered, end_offset, first, largest, index)


def _big_endian(column: array[int]) -> bytes:
    if sys.byteorder == "little":
        column = column[:]
        column.byteswap()
    return column.tobytes()
