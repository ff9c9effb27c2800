"""The part of the file backend that runs in a writer thread.

It takes runs of batches to the end of the last segment, closing it and beginning new ones where a run says
so. It reads the segment's published state and never changes it: that is for the owner's thread, once the
write has succeeded. If anything fails, what this write brought is cut off again, so that the files hold whole
batches only and nothing that did not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.storage.background import Background
from penstock.storage.disk import write_all, write_atomically
from penstock.storage.index import Extent, SparseIndex, encode_index
from penstock.storage.segment import index_path, segment_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.storage.descriptors import Descriptors
    from penstock.storage.index import Mark
    from penstock.storage.interface import WriteRun
    from penstock.storage.segment import Segment


CLEAN = "clean"
"""The marker of a clean close."""


class _Tail(Extent):
    """The segment at the end, as it will be once this write is published."""

    def __init__(self, folder: str, base_offset: int, segment: Segment | None = None) -> None:
        super().__init__(base_offset, segment)
        self.path = segment_path(folder, base_offset)
        self.segment = segment
        self.marks: list[Mark] = []

    def add(self, run: WriteRun, size: int) -> None:
        self.grow(size, run.end_offset, run.first_timestamp, run.max_timestamp)
        self.marks += run.marks

    def encoded_index(self) -> bytes:
        index = SparseIndex()
        if self.segment is not None:
            known = self.segment.index
            index = known.copy() if known is not None else self.segment.read_index()
        for mark in self.marks:
            index.add(mark)
        return encode_index(self.stored_index(index))


class FileWriter:
    def __init__(self, descriptors: Descriptors, folder: str) -> None:
        self.marked_clean = False
        """The marker is there and must go before anything is written."""
        self.background = Background(descriptors.disk)
        self._descriptors = descriptors
        self._disk = descriptors.disk
        self._folder = folder
        self._folder_changed = False

    def unmark_clean(self) -> None:
        if self.marked_clean:
            self._disk.unlink_if_there(f"{self._folder}/{CLEAN}")
            self._disk.fsync_dir(self._folder)
            self.marked_clean = False

    def write(
        self,
        active: Segment | None,
        runs: Sequence[WriteRun],
        blobs: Sequence[tuple[str, bytes]],
        *,
        sync: bool,
    ) -> None:
        if sync:  # what earlier writes left to the background must be there before this one counts
            self.background.settle()
        else:
            self.background.check()
        self.unmark_clean()
        self._folder_changed = False
        created: list[int] = []
        try:
            self._put(blobs)
            if blobs:  # epochs are on disk before the batches that they are about
                self._disk.fsync_dir(self._folder)
            self._write_runs(active, runs, created, sync=sync)
            if self._folder_changed:  # new names are durable before anything in them counts
                self._disk.fsync_dir(self._folder)
        except OSError:
            self._undo(active, created, indexed=any(run.roll or run.checkpoint for run in runs))
            raise

    def _write_runs(
        self, active: Segment | None, runs: Sequence[WriteRun], created: list[int], *, sync: bool
    ) -> None:
        tail = _Tail(self._folder, active.base_offset, active) if active else None
        for run in runs:
            if run.roll or run.checkpoint:
                self._vouch(tail, run, sync=sync)
            if run.roll:
                tail = _Tail(self._folder, run.segment)
                self._create(tail, created)
            assert tail is not None, "the first run of a log begins a segment"
            if run.buffers:
                file = self._descriptors.pin(tail.path)
                try:
                    size = write_all(self._disk, file.fd, run.buffers, tail.size)
                finally:
                    self._descriptors.unpin(file)
                tail.add(run, size)
        if sync and tail is not None:
            self._descriptors.sync(tail.path)

    def _create(self, tail: _Tail, created: list[int]) -> None:
        created.append(tail.base_offset)
        self._disk.unlink_if_there(index_path(self._folder, tail.base_offset))
        self._descriptors.forget(tail.path)
        file = self._descriptors.pin(tail.path, create=True)
        try:
            self._disk.ftruncate(file.fd, 0)
        finally:
            self._descriptors.unpin(file)
        self._folder_changed = True

    def _vouch(self, tail: _Tail | None, run: WriteRun, *, sync: bool) -> None:
        """Store index and snapshot for what is written so far; both speak of bytes that are on disk.

        Under `flush=os` acknowledgements do not wait for a disk, so they do not wait for this one either: it
        happens in the background. Until then a crash means a longer scan, and a loss of power that what was
        not synced may be gone, in a closed segment too (see recovery.py).
        """
        described = None
        if tail is not None:
            described = (tail.path, index_path(self._folder, tail.base_offset), tail.encoded_index())

        def vouch() -> None:
            if described is not None:
                segment, index, data = described
                self._descriptors.sync(segment)
                write_atomically(self._disk, index, data)
            self._put(run.blobs)
            for name in run.stale_blobs:
                self._disk.unlink_if_there(f"{self._folder}/{name}")
            if not sync:
                self._disk.fsync_dir(self._folder)

        if sync:
            vouch()
            self._folder_changed = True
        else:
            self.background.begin(vouch)

    def _put(self, blobs: Sequence[tuple[str, bytes]]) -> None:
        for name, data in blobs:
            write_atomically(self._disk, f"{self._folder}/{name}", data)

    def _undo(self, active: Segment | None, created: list[int], *, indexed: bool) -> None:
        """Best effort on a disk that has just failed; recovery does the same at the next start."""
        self.background.wait()
        try:
            for base_offset in reversed(created):
                path = segment_path(self._folder, base_offset)
                self._descriptors.forget(path)
                self._disk.unlink_if_there(path)
                self._disk.unlink_if_there(index_path(self._folder, base_offset))
            if active is None:
                return
            if indexed:
                self._disk.unlink_if_there(index_path(self._folder, active.base_offset))
            file = self._descriptors.pin(active.path)
            try:
                self._disk.ftruncate(file.fd, active.size)
            finally:
                self._descriptors.unpin(file)
        except OSError:
            return
