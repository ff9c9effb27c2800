"""Batches that wait to be written, in the form in which they will be: runs of buffers for one segment each.

This is where segments are begun (by size and by time) and checkpoints set, because only here is known, before
anything is written, at which byte each batch will lie.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.storage.config import MIB, Flush
from penstock.storage.index import Mark
from penstock.storage.interface import WriteRun
from penstock.wire.batch import NO_TIMESTAMP, PATCHED_SIZE, patched_prefix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.storage.config import LogConfig
    from penstock.storage.interface import SegmentInfo
    from penstock.wire.batch import BatchHeader, Buffer

CHECKPOINT_BYTES = {Flush.COMMIT: 64 * MIB, Flush.OS: 1024 * MIB}
"""Recovery after a crash scans at most about this much of a log. A checkpoint syncs, which costs nothing
where every write does. Where none does, it makes the writes to the same file wait for the disk (a quarter of
the throughput at 512 MiB), so there a segment of the usual size has none before its end, as in Kafka."""


class PendingWrites:
    def __init__(self, segments: Sequence[SegmentInfo]) -> None:
        """Goes on at the end of the last segment, if there is one."""
        self.runs: list[WriteRun] = []
        last = segments[-1] if segments else None
        self._segment = last.base_offset if last else None
        self._position = last.size if last else 0
        self._marked = self._checkpointed = self._position
        self._first_timestamp = last.first_timestamp if last else NO_TIMESTAMP
        self._max_timestamp = last.max_timestamp if last else NO_TIMESTAMP

    @property
    def has_segment(self) -> bool:
        return self._segment is not None

    @property
    def active(self) -> tuple[int, int] | None:
        """Base offset and size of the segment that the next batch goes to, all that is queued included."""
        return None if self._segment is None else (self._segment, self._position)

    def must_roll(self, header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
        """Whether the batch has to begin a new segment."""
        if self._segment is None:
            return True
        if not self._position:
            return False
        if self._position + header.size > config.segment_bytes:
            return True
        if self._first_timestamp == NO_TIMESTAMP:
            return False
        latest = header.max_timestamp if header.max_timestamp != NO_TIMESTAMP else now_ms
        return latest - self._first_timestamp > config.roll_ms

    def must_checkpoint(self, config: LogConfig) -> bool:
        return self._position - self._checkpointed >= CHECKPOINT_BYTES[config.flush]

    def roll(self, base_offset: int) -> WriteRun:
        self._segment = base_offset
        self._position = self._marked = self._checkpointed = 0
        self._first_timestamp = self._max_timestamp = NO_TIMESTAMP
        return self._begin(WriteRun(base_offset, roll=True, end_offset=base_offset))

    def checkpoint(self, offset: int) -> WriteRun:
        assert self._segment is not None
        self._checkpointed = self._position
        return self._begin(WriteRun(self._segment, checkpoint=True, end_offset=offset))

    def add(
        self, batch: Buffer, header: BatchHeader, base_offset: int, leader_epoch: int, index_interval: int
    ) -> None:
        """Queue a batch: its first bytes anew, the rest as a view of what came."""
        assert self._segment is not None
        run = self.runs[-1] if self.runs else self._begin(WriteRun(self._segment))
        position = self._position
        if position - self._marked >= index_interval:
            run.marks.append(Mark(base_offset, position, self._max_timestamp))
            self._marked = position
        run.buffers.append(patched_prefix(header, base_offset, leader_epoch))
        run.buffers.append(memoryview(batch)[PATCHED_SIZE:])
        size = header.size
        run.size += size
        run.end_offset = base_offset + header.last_offset_delta + 1
        self._position = position + size
        timestamp = header.max_timestamp
        if timestamp > self._max_timestamp:
            self._max_timestamp = run.max_timestamp = timestamp
        if run.first_timestamp == NO_TIMESTAMP:
            run.first_timestamp = timestamp
            if self._first_timestamp == NO_TIMESTAMP:
                self._first_timestamp = timestamp

    def take(self) -> list[WriteRun]:
        runs, self.runs = self.runs, []
        return runs

    def _begin(self, run: WriteRun) -> WriteRun:
        self.runs.append(run)
        return run
