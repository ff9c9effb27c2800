"""The file backend: one folder per log.

::

    00000000000000000000.log        raw batches from that base offset on
    00000000000000000000.index      its sparse index, see index.py
    00000000000000001234.snapshot   producers as of that offset
    epochs, log-start, cleaner      small sealed blobs
    clean                           written last at a clean close, removed before the next write
    partition                       topic id

While `clean` exists and the files have the sizes it lists, opening costs a few small reads and no scan.
Writing itself is in file_writer.py.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from penstock.storage import swapping
from penstock.storage.blobs import seal, unseal
from penstock.storage.compaction import CleanerState
from penstock.storage.disk import write_atomically
from penstock.storage.errors import HalfDoneError, os_failure
from penstock.storage.file_writer import CLEAN, FileWriter
from penstock.storage.index import SparseIndex
from penstock.storage.interface import CompactionSource, DamagedRange, Loaded, SegmentInfo
from penstock.storage.scrubbing import PIECE_BYTES, ScrubPiece
from penstock.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, Segment, index_path
from penstock.storage.segment_files import cut, recover_all, release, remove, write_index
from penstock.wire.batch import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.storage.compaction import CompactionPlan, CompactionResult
    from penstock.storage.config import LogConfig
    from penstock.storage.index_cache import IndexCache
    from penstock.storage.interface import WriteRun
    from penstock.wire.batch import Buffer

PARTITION = "partition"
TEMPORARY_SUFFIX = ".tmp"


class FileBackend:
    is_local = True

    def __init__(self, indexes: IndexCache, folder: str) -> None:
        self.folder = folder
        self._indexes = indexes
        self._descriptors = indexes.descriptors
        self._disk = indexes.descriptors.disk
        self._segments: list[Segment] = []
        self._bases: list[int] = []
        self._writer = FileWriter(indexes.descriptors, folder)
        self._names: list[str] = []

    # Opening and closing

    def load(self, config: LogConfig) -> Loaded:
        self._names = self._disk.listdir(self.folder)
        if swapping.resume(self._disk, self.folder, self._names):
            self._names = self._disk.listdir(self.folder)
        for name in self._names:
            if name.endswith(TEMPORARY_SUFFIX):
                self._disk.unlink(self._path(name))
        bases = sorted(int(name[: -len(LOG_SUFFIX)]) for name in self._names if name.endswith(LOG_SUFFIX))
        segments = [Segment(self._indexes, self.folder, base) for base in bases]
        sizes = [self._disk.size(segment.path) for segment in segments]
        try:
            return self._load_segments(segments, sizes, config)
        except BaseException:
            release(self._indexes, segments)
            raise

    def _load_segments(self, segments: list[Segment], sizes: list[int], config: LogConfig) -> Loaded:
        end_offset = self._load_clean(segments, sizes) if CLEAN in self._names else None
        if end_offset is not None:
            self._publish(segments)
            return Loaded(True, end_offset)
        if CLEAN in self._names:
            self._disk.unlink(self._path(CLEAN))
            self._disk.fsync_dir(self.folder)
        self._writer.marked_clean = False
        report = recover_all(self._indexes, segments, sizes, config, CleanerState.load(self).cleaned_to)
        self._publish(segments)
        return Loaded(False, segments[-1].end_offset if segments else None, report)

    def _load_clean(self, segments: list[Segment], sizes: list[int]) -> int | None:
        """The end of the log, if the marker of a clean close is whole and agrees with the files."""
        clean = unseal(self.get_blob(CLEAN))
        if clean is None or [[info[0], info[2]] for info in clean["segments"]] != [
            [segment.base_offset, size] for segment, size in zip(segments, sizes, strict=True)
        ]:
            return None
        for segment, fields in zip(segments, clean["segments"], strict=True):
            info = SegmentInfo(*fields)
            segment.size, segment.end_offset = info.size, info.end_offset
            segment.first_timestamp, segment.max_timestamp = info.first_timestamp, info.max_timestamp
        self._writer.marked_clean = True
        return int(clean["end_offset"])

    def _publish(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        if segments:
            segments[-1].active = True
            self._indexes.forget(segments[-1])

    def close(self, *, end_offset: int | None, blobs: Sequence[tuple[str, bytes]] = ()) -> None:
        try:
            self._writer.background.wait()
            if end_offset is not None:
                self._writer.background.check()
                if not self._writer.marked_clean:
                    self._mark_clean(end_offset, blobs)
        finally:
            release(self._indexes, self._segments)

    def _mark_clean(self, end_offset: int, blobs: Sequence[tuple[str, bytes]]) -> None:
        if self._segments:
            self._descriptors.sync(self._segments[-1].path)
            write_index(self._segments[-1])
        for name, data in blobs:
            write_atomically(self._disk, self._path(name), data)
        marker = {"end_offset": end_offset, "segments": [segment.info() for segment in self._segments]}
        self.put_blob(CLEAN, seal(marker))
        self._writer.marked_clean = True

    # Writing

    def write(self, runs: Sequence[WriteRun], blobs: Sequence[tuple[str, bytes]], *, sync: bool) -> None:
        self._writer.write(self._segments[-1] if self._segments else None, runs, blobs, sync=sync)

    def written(self, runs: Sequence[WriteRun]) -> None:
        for run in runs:
            if run.roll:
                segment = Segment(self._indexes, self.folder, run.segment)
                segment.index = SparseIndex()
                if self._segments:
                    closed = self._segments[-1]
                    closed.active = False
                    if closed.index is not None:
                        self._indexes.used(closed)
                self._publish([*self._segments, segment])
            self._segments[-1].extend(run)

    def truncate(self, offset: int) -> int:
        self.unmark_clean()
        doomed = len(self._bases)
        while doomed > 1 and self._bases[doomed - 1] >= offset:
            doomed -= 1
        kept, gone = self._segments[:doomed], self._segments[doomed:]
        remove(self._indexes, gone[::-1])
        segment = kept[-1]
        segment.load_index()  # while its file, if it comes from there, still describes the segment
        position, end_offset = segment.place_to_cut(offset)
        if position < segment.size or offset < segment.end_offset:  # the latter after a compaction
            segment.truncate(position, end_offset)
            self._disk.unlink_if_there(index_path(self.folder, segment.base_offset))
            self._disk.fsync_dir(self.folder)
            cut(segment, position)
        self._disk.fsync_dir(self.folder)
        self._publish(kept)
        return end_offset

    def reset(self, offset: int) -> None:
        self.unmark_clean()
        remove(self._indexes, self._segments[::-1])
        segment = Segment(self._indexes, self.folder, offset)
        self._disk.close(self._disk.open(segment.path, create=True))
        self._disk.fsync_dir(self.folder)
        segment.index = SparseIndex()
        self._publish([segment])

    def drop_front(self, count: int) -> None:
        self._writer.background.wait()  # room is made even if something went wrong there
        self._writer.unmark_clean()
        remove(self._indexes, self._segments[:count])
        self._disk.fsync_dir(self.folder)
        self._publish(self._segments[count:])

    def unmark_clean(self) -> None:
        """Files are about to change under what speaks of them: the marker goes, the background is done."""
        self._writer.background.settle()
        self._writer.unmark_clean()

    # Reading

    def segments(self) -> list[SegmentInfo]:
        return [segment.info() for segment in self._segments]

    def read(self, offset: int, size_max: int, end_offset: int) -> Buffer:
        at = max(bisect_right(self._bases, offset) - 1, 0)
        while at < len(self._segments) and self._bases[at] < end_offset:
            data = self._segments[at].read(offset, size_max, end_offset)
            if data:
                return data
            at += 1
        return b""

    def seek_time(self, timestamp: int) -> int:
        for segment in self._segments:
            if segment.max_timestamp >= timestamp:
                mark = segment.load_index().floor_time(timestamp)
                return mark.offset if mark else segment.base_offset
        return self._segments[-1].end_offset if self._segments else 0

    def max_timestamp_before(self, end_offset: int) -> tuple[int, int]:
        largest = NO_TIMESTAMP
        offset = 0
        for segment in self._segments:
            if segment.base_offset >= end_offset:
                break
            offset = segment.base_offset
            if segment.end_offset <= end_offset:
                largest = max(largest, segment.max_timestamp)
                offset = segment.end_offset
            elif mark := segment.load_index().floor(end_offset):
                largest = max(largest, mark.max_timestamp_before)
                offset = mark.offset
        return largest, offset

    def damage(self) -> list[DamagedRange]:
        return [
            DamagedRange(segment.path, found.start, found.end - found.start, *found[2:])
            for segment in self._segments
            for found in segment.damage
        ]

    def scrub_pieces(self) -> Iterator[ScrubPiece]:
        for segment in self._segments[:-1]:
            position = 0
            while segment in self._segments and position < segment.size:
                piece = segment.piece_at(position, PIECE_BYTES)
                yield ScrubPiece(segment, piece)
                position = piece.end

    def confirm(self, piece: ScrubPiece) -> None:
        if piece.segment in self._segments and piece.stretch.start < piece.segment.size:
            piece.segment.confirm(piece.stretch)

    def mend(self, damage: DamagedRange, data: bytes) -> bool:
        for segment in self._segments:
            if segment.path == damage.file:
                return segment.mend(damage.position, data)
        return False

    # Compaction

    def compaction_source(self, segments: Sequence[SegmentInfo]) -> CompactionSource:  # noqa: ARG002
        return CompactionSource(self.folder, None)

    def swap(self, result: CompactionResult) -> None:
        self.unmark_clean()
        announced = swapping.announce(self._disk, self.folder, result)
        gone = {segment.base_offset for segment in result.plan.segments}
        replaced = [segment for segment in self._segments if segment.base_offset in gone]
        release(self._indexes, replaced)
        try:
            swapping.complete(self._disk, self.folder, announced)
        except OSError as error:
            for segment in replaced:  # their files may be others now; reads of them have to fail
                segment.index = SparseIndex()
                segment.forget_positions()
                segment.note_all("its file may be another one now")
            what = "complete the swap of compacted segments in"
            raise HalfDoneError(str(os_failure(what, self.folder, error))) from error
        fresh = []
        for made in result.segments:
            segment = Segment(self._indexes, self.folder, made.base_offset)
            segment.size, segment.end_offset = made.size, made.end_offset
            segment.first_timestamp, segment.max_timestamp = made.first_timestamp, made.max_timestamp
            fresh.append(segment)
        kept = [segment for segment in self._segments if segment.base_offset not in gone]
        self._publish(sorted(kept + fresh, key=lambda segment: segment.base_offset))

    def discard(self, plan: CompactionPlan) -> None:
        swapping.discard(self._disk, self.folder, plan.run)

    # Blobs

    def get_blob(self, name: str) -> bytes | None:
        try:
            return self._disk.read_file(self._path(name))
        except FileNotFoundError:
            return None

    def put_blob(self, name: str, data: bytes) -> None:
        write_atomically(self._disk, self._path(name), data)
        self._disk.fsync_dir(self.folder)

    def remove_blobs(self, names: Sequence[str]) -> None:
        for name in names:
            self._disk.unlink_if_there(self._path(name))
        if names:
            self._disk.fsync_dir(self.folder)

    def blob_names(self) -> list[str]:
        """As they were when the log was opened."""
        return [
            name for name in self._names if not name.endswith((LOG_SUFFIX, INDEX_SUFFIX, TEMPORARY_SUFFIX))
        ]

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name}"
