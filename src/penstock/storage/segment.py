"""One segment: a file of raw batches, named by its base offset, and its sparse index.

Reading knows three ways to a position, cheapest first: a remembered one (where a sequential reader stopped,
or where a flush ended), an index entry, a walk over headers from there. A read ends
before what is damaged (checked_bytes.py); one that begins there raises RotError.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from penstock.storage.checked_bytes import CheckedBytes
from penstock.storage.errors import RotError
from penstock.storage.index import SparseIndex, StoredIndex, decode_index
from penstock.storage.interface import SegmentInfo
from penstock.storage.recovery import rebuild_index
from penstock.wire.batch import HEADER_SIZE, LENGTH_PREFIX_SIZE, NO_TIMESTAMP, read_header

if TYPE_CHECKING:
    from penstock.storage.disk import Disk
    from penstock.storage.index_cache import IndexCache
    from penstock.storage.interface import WriteRun
    from penstock.wire.batch import Buffer

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
POSITIONS_KEPT = 32

_PLACE = struct.Struct(">qi4xb6xi")  # base_offset, batch_length, magic, last_offset_delta
_LENGTH_MIN = HEADER_SIZE - LENGTH_PREFIX_SIZE
_WALK_BYTES = 64 << 10


def segment_path(folder: str, base_offset: int) -> str:
    return f"{folder}/{base_offset:020d}{LOG_SUFFIX}"


def index_path(folder: str, base_offset: int) -> str:
    return f"{folder}/{base_offset:020d}{INDEX_SUFFIX}"


class Segment(CheckedBytes):
    __slots__ = (
        "_boundaries",
        "_indexes",
        "_starts",
        "active",
        "folder",
        "index",
    )

    def __init__(self, indexes: IndexCache, folder: str, base_offset: int) -> None:
        super().__init__(indexes.descriptors, segment_path(folder, base_offset), base_offset)
        self._indexes = indexes
        self._boundaries: dict[int, int] = {}
        """Offsets at which one batch ends and the next begins, and where that is."""
        self._starts: dict[int, int] = {}
        """Offsets that were looked for, and where the batch begins that holds them."""
        self.active = False
        """The last segment of its log: its index stays in memory, for it is ahead of its file."""
        self.folder = folder
        self.index: SparseIndex | None = None
        """None: not in memory."""

    def info(self) -> SegmentInfo:
        return SegmentInfo(
            self.base_offset, self.end_offset, self.size, self.first_timestamp, self.max_timestamp
        )

    def describe(self, stored: StoredIndex) -> None:
        """Take over what a stored or rebuilt index says about the segment."""
        self.size = stored.covered
        self.end_offset = stored.end_offset
        self.first_timestamp = stored.first_timestamp
        self.max_timestamp = stored.max_timestamp
        self.index = stored.index

    def extend(self, run: WriteRun) -> None:
        """Publish batches that are written now."""
        if not run.size:
            return
        index = self.load_index()  # while its file, if it comes from there, still describes the segment
        self.checked.add(self.size, self.size + run.size)
        self.grow(self.size + run.size, run.end_offset, run.first_timestamp, run.max_timestamp)
        _remember(self._boundaries, self.end_offset, self.size)
        for mark in run.marks:
            index.add(mark)

    def load_index(self) -> SparseIndex:
        index = self.index
        if index is None:
            index = self.index = self.read_index()
        if not self.active:
            self._indexes.used(self)
        return index

    def read_index(self) -> SparseIndex:
        """The index from its file, or rebuilt from the segment; nothing here changes but `damage`."""
        stored = read_index_file(self.descriptors.disk, index_path(self.folder, self.base_offset))
        if stored is not None and stored.base_offset == self.base_offset and stored.covered == self.size:
            return stored.index
        if not self.size:
            return SparseIndex()
        rebuilt = rebuild_index(self.pread, self.base_offset, self.size)
        self.add_damage(rebuilt.damage)
        return rebuilt.stored.index

    # Reading

    def read(self, offset: int, size_max: int, end_offset: int) -> Buffer:
        """Whole batches from the one that holds `offset` on; empty when there is none before the ends."""
        start = self.position_of(offset)
        if start >= self.size:
            return b""
        limit, whole = self._end_position(end_offset)
        stop = self.end_of_read(start, min(start + size_max, limit))
        stop = max(stop, start + min(HEADER_SIZE, self.size - start))
        data = self.read_checked(start, stop)
        if whole and start + len(data) == limit:
            return data
        end, next_offset = self._walk(data, start, end_offset)
        if end == start:
            if next_offset >= end_offset:
                return b""
            size = self._batch_size(data, start)
            data = self.read_checked(start, start + size)
            end, next_offset = start + size, read_header(data).next_offset
        _remember(self._boundaries, next_offset, end)
        return data if end - start == len(data) else memoryview(data)[: end - start]

    def position_of(self, offset: int) -> int:
        """Where the batch begins that holds `offset`, or the next one after a gap; `size` when none does."""
        if offset >= self.end_offset:
            return self.size
        known = self._boundaries.get(offset)
        if known is None:
            known = self._starts.get(offset)
        if known is not None:
            return known
        mark = self.load_index().floor(offset)
        position = mark.position if mark else 0
        data: Buffer = b""
        data_start = position
        while position < self.size:
            at = position - data_start
            if at + HEADER_SIZE > len(data):
                damage = self.damage_at(position)
                if damage is not None and offset < damage.end_offset:
                    raise self.rotten(damage)
                if damage is not None:
                    position = data_start = damage.end
                    data = b""
                    continue
                data = self.read_checked(position, min(position + _WALK_BYTES, self.size))
                data_start, at = position, 0
            base_offset, length, magic, last_delta = _PLACE.unpack_from(data, at)
            end = position + length + LENGTH_PREFIX_SIZE
            if magic != 2 or length < _LENGTH_MIN or end > self.size or base_offset < self.base_offset:
                raise self.bad(position, "no valid batch header")
            if base_offset + last_delta >= offset:
                break
            position = end
        _remember(self._starts, offset, position)
        return position

    def place_to_cut(self, offset: int) -> tuple[int, int]:
        """Where the batch begins that holds `offset`, and with which one; what is damaged goes as a whole."""
        for damage in self.damage:
            if damage.first_offset <= offset < damage.end_offset:
                return damage.start, damage.first_offset
        try:
            position = self.position_of(offset)
        except RotError:  # it was not known yet
            return self.place_to_cut(offset)
        if position >= self.size:
            return position, offset
        return position, min(offset, int.from_bytes(self.pread(8, position)))

    def truncate(self, position: int, end_offset: int) -> None:
        """Forget everything from `position` on; the file itself is cut by the caller."""
        index = self.load_index()
        before = index.floor_position(position)
        start, largest = (before.position, before.max_timestamp_before) if before else (0, NO_TIMESTAMP)
        while start < position:
            head = self.pread(HEADER_SIZE, start)
            size = self._batch_size(head, start)
            largest = max(largest, read_header(head).max_timestamp)
            start += size
        index.truncate(position)
        self.forget_positions()
        self.forget_from(position)
        self.size, self.end_offset, self.max_timestamp = position, end_offset, largest
        if not position:
            self.first_timestamp = NO_TIMESTAMP

    def forget_positions(self) -> None:
        self._boundaries.clear()
        self._starts.clear()

    def _end_position(self, end_offset: int) -> tuple[int, bool]:
        """A position behind every batch that begins before `end_offset`, and whether it is the exact one."""
        if end_offset >= self.end_offset:
            return self.size, True
        known = self._boundaries.get(end_offset)
        if known is not None:
            return known, True
        mark = self.load_index().ceiling(end_offset)
        return (mark.position if mark else self.size), False

    def _walk(self, data: Buffer, start: int, end_offset: int) -> tuple[int, int]:
        """(end of the last whole batch in `data` before `end_offset`, the offset after it).

        Begins at the last index entry within, so that only a short stretch is looked at.
        """
        index = self.load_index()
        mark = index.floor_position(start + len(data))
        if mark and mark.offset >= end_offset:
            mark = index.floor(end_offset)
        position = max(mark.position, start) if mark else start
        next_offset = mark.offset if mark and mark.position >= start else -1
        at = position - start
        while at + HEADER_SIZE <= len(data):
            base_offset, length, magic, last_delta = _PLACE.unpack_from(data, at)
            end = at + length + LENGTH_PREFIX_SIZE
            if magic != 2 or length < _LENGTH_MIN or start + end > self.size:
                raise self.bad(start + at, "no valid batch header")
            if base_offset >= end_offset:
                return start + at, base_offset
            if end > len(data):
                break
            next_offset = base_offset + last_delta + 1
            at = end
        return start + at, next_offset

    def _batch_size(self, data: Buffer, position: int) -> int:
        """The size of the batch with which `data` begins."""
        if len(data) < HEADER_SIZE:
            raise self.bad(position, "the file ends inside a batch header")
        base_offset, length, magic, _ = _PLACE.unpack_from(data)
        size: int = length + LENGTH_PREFIX_SIZE
        if magic != 2 or size < HEADER_SIZE or position + size > self.size or base_offset < self.base_offset:
            raise self.bad(position, "no valid batch header")
        return size


def read_index_file(disk: Disk, path: str) -> StoredIndex | None:
    """None when it is missing or damaged."""
    try:
        return decode_index(disk.read_file(path))
    except FileNotFoundError:
        return None


def _remember(positions: dict[int, int], offset: int, position: int) -> None:
    if offset in positions:
        return
    if len(positions) >= POSITIONS_KEPT:
        del positions[next(iter(positions))]
    positions[offset] = position
