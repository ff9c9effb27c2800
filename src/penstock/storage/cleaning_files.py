"""Where compaction reads its batches and leaves what it keeps: files, or lists in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.storage.disk import Disk, write_all, write_atomically
from penstock.storage.errors import RotError
from penstock.storage.index import encode_index
from penstock.storage.recovery import IndexBuilder
from penstock.storage.scan import scan_batches
from penstock.storage.segment import index_path, segment_path
from penstock.storage.swapping import cleaned_suffix, discard
from penstock.wire.batch import BatchError, check_batch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.storage.compaction import CompactionPlan
    from penstock.storage.interface import SegmentInfo
    from penstock.wire.batch import BatchHeader, Buffer

WRITE_BYTES = 4 << 20

Made = tuple[int, int, int, int]
"""End offset, size, first and largest timestamp of a compacted segment."""


class FileRound:
    made: None = None

    def __init__(self, folder: str, plan: CompactionPlan, disk: Disk | None = None) -> None:
        self._name = plan.name
        self._folder = folder
        self._interval = plan.index_interval_bytes
        self._run = plan.run
        self._suffix = cleaned_suffix(plan.run)
        self._disk = disk or Disk()
        self._fd = -1
        self._buffers: list[Buffer] = []
        self._buffered = 0
        self._written = 0
        self._builder = IndexBuilder(0, self._interval)

    def batches(self, segments: Sequence[SegmentInfo]) -> Iterator[tuple[BatchHeader, memoryview]]:
        for segment in segments:
            path = segment_path(self._folder, segment.base_offset)
            fd = self._disk.open(path)
            next_offset = segment.base_offset
            try:

                def read(size: int, position: int, fd: int = fd) -> bytes:
                    return self._disk.pread(fd, size, position)

                for position, header in scan_batches(read, 0, segment.size, segment.base_offset):
                    next_offset = header.next_offset
                    yield header, memoryview(read(header.size, position))
            except BatchError as error:  # what is rotten is not copied, for then nobody would see it any more
                raise RotError(
                    f"cannot compact {self._name}: {path} from offset {next_offset} on: {error}"
                ) from error
            finally:
                self._disk.close(fd)

    def begin(self, base_offset: int) -> None:
        self._fd = self._disk.create(segment_path(self._folder, base_offset) + self._suffix)
        self._builder = IndexBuilder(base_offset, self._interval)
        self._written = 0

    def add(self, batch: Buffer) -> None:
        position = self._written + self._buffered
        self._builder.add(position, check_batch(memoryview(batch), position))
        self._buffers.append(batch)
        self._buffered += len(batch)
        if self._buffered >= WRITE_BYTES:
            self._flush()

    def end(self, end_offset: int) -> Made:
        self._flush()
        self._disk.fdatasync(self._fd)
        self.close()
        self._builder.end_offset = end_offset
        stored = self._builder.stored()
        path = index_path(self._folder, self._builder.base_offset) + self._suffix
        write_atomically(self._disk, path, encode_index(stored))
        return stored.end_offset, stored.covered, stored.first_timestamp, stored.max_timestamp

    def discard(self) -> None:
        """The run has failed: leave nothing."""
        self.close()
        discard(self._disk, self._folder, self._run)

    def close(self) -> None:
        if self._fd >= 0:
            self._disk.close(self._fd)
            self._fd = -1

    def _flush(self) -> None:
        self._written = write_all(self._disk, self._fd, self._buffers, self._written)
        self._buffers = []
        self._buffered = 0


class MemoryRound:
    def __init__(self, plan: CompactionPlan) -> None:
        assert plan.batches is not None
        self._sources = dict(
            zip((segment.base_offset for segment in plan.segments), plan.batches, strict=True)
        )
        self._builder = IndexBuilder(0, plan.index_interval_bytes)
        self._interval = plan.index_interval_bytes
        self.made: list[list[bytes]] = []

    def batches(self, segments: Sequence[SegmentInfo]) -> Iterator[tuple[BatchHeader, memoryview]]:
        for segment in segments:
            for batch in self._sources[segment.base_offset]:
                view = memoryview(batch)
                yield check_batch(view), view

    def begin(self, base_offset: int) -> None:
        self.made.append([])
        self._builder = IndexBuilder(base_offset, self._interval)

    def add(self, batch: Buffer) -> None:
        self._builder.add(self._builder.size, check_batch(memoryview(batch)))
        self.made[-1].append(bytes(batch))

    def end(self, end_offset: int) -> Made:
        self._builder.end_offset = end_offset
        stored = self._builder.stored()
        return stored.end_offset, stored.covered, stored.first_timestamp, stored.max_timestamp

    def close(self) -> None:
        """Nothing is open."""

    def discard(self) -> None:
        self.made.clear()
