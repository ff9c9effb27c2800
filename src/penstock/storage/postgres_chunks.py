"""Chunks: consecutive whole batches of one flush that share a row, and a cache of those used last.

A row costs a round of bookkeeping however little is in it, so small batches that are flushed together go into
one; a chunk grows to about CHUNK_BYTES, or is one batch that is larger. Where batches begin within a chunk is
known when it is made, and found by a walk over headers when it comes back from the database.

Readers at the end of a log ask for what has just been written. The cache has it, so they do not wait for the
database, nor does the event loop on which they are served.
"""

from __future__ import annotations

import struct
import threading
from array import array
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from penstock.storage.config import KIB, MIB
from penstock.storage.errors import StorageError
from penstock.wire.batch import HEADER_SIZE, LENGTH_PREFIX_SIZE, NO_TIMESTAMP, PATCHED_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.wire.batch import Buffer

CHUNK_BYTES: Final = 512 * KIB
CACHE_BYTES: Final = 32 * MIB

_OFFSET = struct.Struct(">q")
_START = struct.Struct(">qi")
_DELTA = struct.Struct(">i")
_DELTA_AT, _MAX_TIMESTAMP_AT = 23, 35


class Chunk:
    __slots__ = ("bases", "data", "first_timestamp", "lasts", "max_timestamp", "positions")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.bases = array("q")
        self.lasts = array("q")
        self.positions = array("q")
        self.first_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP

    @classmethod
    def parse(cls, data: bytes) -> Chunk:
        """StorageError: these are not whole batches."""
        chunk = cls(data)
        position, end = 0, len(data)
        while position < end:
            if end - position < HEADER_SIZE:
                raise StorageError(f"a chunk ends within a batch, at byte {position}")
            base, length = _START.unpack_from(data, position)
            last = base + _DELTA.unpack_from(data, position + _DELTA_AT)[0]
            timestamp = _OFFSET.unpack_from(data, position + _MAX_TIMESTAMP_AT)[0]
            chunk.add(base, last, position, timestamp)
            if length < HEADER_SIZE - LENGTH_PREFIX_SIZE:
                raise StorageError(f"a chunk is damaged at byte {position}: no batch has {length} bytes")
            position += length + LENGTH_PREFIX_SIZE
        if position != end or not end:
            raise StorageError("a chunk ends within a batch")
        return chunk

    def add(self, base_offset: int, last_offset: int, position: int, timestamp: int) -> None:
        if self.first_timestamp == NO_TIMESTAMP:
            self.first_timestamp = timestamp
        self.bases.append(base_offset)
        self.lasts.append(last_offset)
        self.positions.append(position)
        self.max_timestamp = max(self.max_timestamp, timestamp)

    @property
    def base_offset(self) -> int:
        return self.bases[0]

    @property
    def last_offset(self) -> int:
        return self.lasts[-1]

    @property
    def size(self) -> int:
        return len(self.data)

    def find(self, offset: int) -> int:
        """The number of the first batch that reaches the offset."""
        return bisect_left(self.lasts, offset)

    def between(self, first: int, size_max: int, end_offset: int, *, at_least: int) -> memoryview:
        """Batches from that one on that begin before the end: as many as fit, but at least so many."""
        count = bisect_left(self.bases, end_offset)
        if first >= count:
            return memoryview(b"")
        start = self.positions[first]
        if self._position(count) - start > size_max:
            count = max(bisect_right(self.positions, start + size_max) - 1, first + at_least)
        return memoryview(self.data)[start : self._position(count)]

    def _position(self, at: int) -> int:
        return self.positions[at] if at < len(self.positions) else len(self.data)

    def before(self, count: int) -> Chunk:
        """A chunk of the first batches alone."""
        return Chunk.parse(self.data[: self._position(count)])


def chunks_of(buffers: Sequence[Buffer]) -> Iterator[Chunk]:
    """Of a run's buffers, two for each batch."""
    first = size = 0
    for at in range(0, len(buffers), 2):
        length = len(buffers[at]) + len(buffers[at + 1])
        if size and size + length > CHUNK_BYTES:
            yield _chunk(buffers[first:at])
            first, size = at, 0
        size += length
    if size:
        yield _chunk(buffers[first:])


def _chunk(buffers: Sequence[Buffer]) -> Chunk:
    chunk = Chunk(b"".join(buffers))
    position = 0
    for at in range(0, len(buffers), 2):
        prefix, rest = buffers[at], buffers[at + 1]
        base = _OFFSET.unpack_from(prefix)[0]
        last = base + _DELTA.unpack_from(rest, _DELTA_AT - PATCHED_SIZE)[0]
        timestamp = _OFFSET.unpack_from(rest, _MAX_TIMESTAMP_AT - PATCHED_SIZE)[0]
        chunk.add(base, last, position, timestamp)
        position += PATCHED_SIZE + len(rest)
    return chunk


class ChunkCache:
    """Of all logs of a node; the one used longest ago goes first. Logs are opened by several threads."""

    def __init__(self, size_max: int = CACHE_BYTES) -> None:
        self._size_max = size_max
        self._size = 0
        self._chunks: OrderedDict[tuple[int, int], Chunk] = OrderedDict()
        self._lasts: dict[int, list[int]] = {}
        self._lock = threading.Lock()

    def put(self, log_id: int, chunks: Iterable[Chunk]) -> None:
        with self._lock:
            for chunk in chunks:
                key = log_id, chunk.last_offset
                if key not in self._chunks:
                    insort(self._lasts.setdefault(log_id, []), chunk.last_offset)
                    self._size += chunk.size
                    self._chunks[key] = chunk
            while self._size > self._size_max and len(self._chunks) > 1:
                self._remove(*next(iter(self._chunks)))

    def get(self, log_id: int, offset: int, size_max: int) -> list[Chunk]:
        """The chunk that holds the offset and those that follow without a gap, up to about that size."""
        found: list[Chunk] = []
        with self._lock:
            lasts = self._lasts.get(log_id, [])
            size = 0
            for at in range(bisect_left(lasts, offset), len(lasts)):
                key = log_id, lasts[at]
                chunk = self._chunks[key]
                due = found[-1].last_offset + 1 if found else offset
                if chunk.base_offset > due or size >= size_max:
                    break
                self._chunks.move_to_end(key)
                found.append(chunk)
                size += chunk.size
        return found

    def forget(self, log_id: int) -> None:
        with self._lock:
            for last_offset in list(self._lasts.get(log_id, ())):
                self._remove(log_id, last_offset)

    def _remove(self, log_id: int, last_offset: int) -> None:
        self._size -= self._chunks.pop((log_id, last_offset)).size
        lasts = self._lasts[log_id]
        del lasts[bisect_left(lasts, last_offset)]
        if not lasts:
            del self._lasts[log_id]
