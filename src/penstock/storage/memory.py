"""The memory backend, for tests and caches: the same log without files.

What it holds lives as long as the MemoryStorage, so closing a log and opening it again works as with files.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from penstock.storage.errors import StorageError
from penstock.storage.interface import CompactionSource, Loaded, SegmentInfo
from penstock.storage.log import PartitionLog
from penstock.wire.batch import NO_TIMESTAMP, read_header

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.storage.compaction import CompactionPlan, CompactionResult
    from penstock.storage.config import LogConfig
    from penstock.storage.interface import DamagedRange, WriteRun
    from penstock.storage.scrubbing import ScrubPiece
    from penstock.wire.batch import Buffer


class MemorySegment:
    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.size = 0
        self.batches: list[bytes] = []
        self.bases: list[int] = []
        self.lasts: list[int] = []
        self.timestamps: list[int] = []

    def add(self, batch: bytes) -> None:
        header = read_header(batch)
        self.batches.append(batch)
        self.bases.append(header.base_offset)
        self.lasts.append(header.last_offset)
        self.timestamps.append(header.max_timestamp)
        self.size += len(batch)

    def truncate(self, count: int) -> None:
        for column in (self.batches, self.bases, self.lasts, self.timestamps):
            del column[count:]
        self.size = sum(map(len, self.batches))

    @property
    def end_offset(self) -> int:
        return self.lasts[-1] + 1 if self.lasts else self.base_offset

    def info(self) -> SegmentInfo:
        return SegmentInfo(
            self.base_offset,
            self.end_offset,
            self.size,
            self.timestamps[0] if self.timestamps else NO_TIMESTAMP,
            max(self.timestamps, default=NO_TIMESTAMP),
        )


class MemoryBackend:
    is_local = True

    def __init__(self) -> None:
        self._segments: list[MemorySegment] = []
        self._blobs: dict[str, bytes] = {}
        self._end_offset: int | None = None

    def load(self, config: LogConfig) -> Loaded:  # noqa: ARG002
        if not self._segments:
            return Loaded(True, None)
        clean = self._end_offset is not None
        return Loaded(clean, self._end_offset if clean else self._segments[-1].end_offset)

    def close(self, *, end_offset: int | None, blobs: Sequence[tuple[str, bytes]] = ()) -> None:
        self._blobs.update(blobs)
        self._end_offset = end_offset

    def write(self, runs: Sequence[WriteRun], blobs: Sequence[tuple[str, bytes]], *, sync: bool) -> None:  # noqa: ARG002
        self._end_offset = None
        self._blobs.update(blobs)
        for run in runs:
            # The batches came as views of somebody's buffer; from here on they are ours.
            run.buffers = [
                b"".join((run.buffers[at], run.buffers[at + 1])) for at in range(0, len(run.buffers), 2)
            ]

    def written(self, runs: Sequence[WriteRun]) -> None:
        for run in runs:
            if run.roll:
                self._segments.append(MemorySegment(run.segment))
            self._blobs.update(run.blobs)
            self.remove_blobs(run.stale_blobs)
            for batch in run.buffers:
                self._segments[-1].add(bytes(batch))

    def segments(self) -> list[SegmentInfo]:
        return [segment.info() for segment in self._segments]

    def read(self, offset: int, size_max: int, end_offset: int) -> Buffer:
        for segment in self._segments[self._floor(offset) :]:
            at = first = bisect_left(segment.lasts, offset)
            size = 0
            while at < len(segment.bases) and segment.bases[at] < end_offset:
                size += len(segment.batches[at])
                if size > size_max and at > first:
                    break
                at += 1
            if at > first:
                return b"".join(segment.batches[first:at])
        return b""

    def seek_time(self, timestamp: int) -> int:
        for segment in self._segments:
            for base, batch_timestamp in zip(segment.bases, segment.timestamps, strict=True):
                if batch_timestamp >= timestamp:
                    return base
        return self._segments[-1].end_offset if self._segments else 0

    def max_timestamp_before(self, end_offset: int) -> tuple[int, int]:
        largest, offset = NO_TIMESTAMP, 0
        for segment in self._segments:
            for base, last, timestamp in zip(segment.bases, segment.lasts, segment.timestamps, strict=True):
                if last >= end_offset:
                    return largest, base
                largest, offset = max(largest, timestamp), last + 1
        return largest, offset

    def damage(self) -> list[DamagedRange]:
        return []  # there is no disk that could rot

    def scrub_pieces(self) -> Iterator[ScrubPiece]:
        return iter(())

    def confirm(self, piece: ScrubPiece) -> None:
        raise NotImplementedError  # there are no pieces

    def mend(self, damage: DamagedRange, data: bytes) -> bool:
        raise NotImplementedError  # there is no damage

    def unmark_clean(self) -> None:
        pass  # nothing is ever under way

    def truncate(self, offset: int) -> int:
        self._end_offset = None
        while len(self._segments) > 1 and self._segments[-1].base_offset >= offset:
            self._segments.pop()
        last = self._segments[-1]
        at = bisect_left(last.lasts, offset)
        end_offset = min(offset, last.bases[at]) if at < len(last.bases) else offset
        last.truncate(at)
        return end_offset

    def reset(self, offset: int) -> None:
        self._end_offset = None
        self._segments = [MemorySegment(offset)]

    def drop_front(self, count: int) -> None:
        del self._segments[:count]

    def compaction_source(self, segments: Sequence[SegmentInfo]) -> CompactionSource:
        wanted = {segment.base_offset for segment in segments}
        return CompactionSource(
            None, [list(segment.batches) for segment in self._segments if segment.base_offset in wanted]
        )

    def swap(self, result: CompactionResult) -> None:
        assert result.batches is not None
        gone = {segment.base_offset for segment in result.plan.segments}
        fresh = []
        for made, batches in zip(result.segments, result.batches, strict=True):
            segment = MemorySegment(made.base_offset)
            for batch in batches:
                segment.add(batch)
            fresh.append(segment)
        self._segments = fresh + [segment for segment in self._segments if segment.base_offset not in gone]

    def discard(self, plan: CompactionPlan) -> None:
        """Nothing was put anywhere."""

    def get_blob(self, name: str) -> bytes | None:
        return self._blobs.get(name)

    def put_blob(self, name: str, data: bytes) -> None:
        self._blobs[name] = data

    def remove_blobs(self, names: Sequence[str]) -> None:
        for name in names:
            self._blobs.pop(name, None)

    def blob_names(self) -> list[str]:
        return list(self._blobs)

    def _floor(self, offset: int) -> int:
        return max(bisect_right(self._segments, offset, key=lambda segment: segment.base_offset) - 1, 0)


class MemoryStorage:
    def __init__(self, storage_id: UUID | None = None, *, node_id: int = 1, cluster_id: str = "") -> None:
        self.storage_id = storage_id or uuid4()
        self.node_id = node_id
        self.cluster_id = cluster_id
        self._backends: dict[str, tuple[UUID, MemoryBackend]] = {}
        self._open: dict[str, PartitionLog] = {}
        self._notes: dict[str, Any] = {}

    def open_log(self, name: str, topic_id: UUID, config: LogConfig, now_ms: int) -> PartitionLog:
        known = self._backends.get(name)
        if known is not None and known[0] != topic_id:
            raise StorageError(f"{name} belongs to topic id {known[0]}, not {topic_id}")
        if name in self._open and not self._open[name].closed:
            raise StorageError(f"{name} is open already")
        backend = known[1] if known is not None else MemoryBackend()
        self._backends[name] = topic_id, backend
        log = self._open[name] = PartitionLog(name, topic_id, config, backend, now_ms)
        return log

    def logs(self) -> list[tuple[str, UUID]]:
        return sorted((name, topic_id) for name, (topic_id, _) in self._backends.items())

    def delete_log(self, name: str) -> None:
        log = self._open.pop(name, None)
        assert log is None or not log.is_flushing, "deletion waits for the job in flight"
        self._backends.pop(name, None)

    def set_aside(self, name: str) -> str:
        """Nobody could look at it."""
        if name in self._open and not self._open[name].closed:
            raise StorageError(f"{name} is open and cannot be set aside")
        self.delete_log(name)
        return "nowhere"

    def set_cluster_id(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id

    def get_note(self, name: str) -> Any:
        return self._notes.get(name)

    def put_note(self, name: str, note: Any) -> None:
        self._notes[name] = note

    def stopping(self) -> None:
        """Nothing is ever waited for."""

    def close(self) -> None:
        for log in self._open.values():
            log.close()
        self._open.clear()
