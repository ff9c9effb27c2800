"""One log in PostgreSQL: which rows are its, and how they change.

Segments are what retention and compaction work on; here they are ranges of offsets, and a row each. Batches
are in chunks (see postgres_chunks.py). Every change is one transaction, so there is nothing to recover: after
a crash the log is as some commit left it.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from psycopg.types.numeric import Int8

from penstock.storage.index import Extent
from penstock.storage.interface import CompactionSource, Loaded, SegmentInfo
from penstock.storage.log import PartitionLog
from penstock.storage.postgres_chunks import Chunk, chunks_of
from penstock.storage.postgres_compaction import STAGED, PostgresRound, discarded, swapped
from penstock.storage.postgres_reaper import doom, spare
from penstock.storage.postgres_statements import (
    CLOSE_SEGMENT,
    DELETE_CHUNKS,
    DELETE_SEGMENTS,
    INSERT_SEGMENT,
    OFFSET_MAX,
    PUT_BLOB,
    READ_CHUNKS,
    READ_SEGMENTS,
    REMOVE_BLOBS,
    REOPEN_SEGMENT,
    SET_CLEAN,
    SUM_UP,
    insert_chunk,
)
from penstock.wire.batch import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.storage.compaction import CompactionPlan, CompactionResult
    from penstock.storage.config import LogConfig
    from penstock.storage.interface import DamagedRange, WriteRun
    from penstock.storage.postgres_chunks import ChunkCache
    from penstock.storage.postgres_connection import Database
    from penstock.storage.postgres_owner import Owner
    from penstock.storage.postgres_reaper import Reaper
    from penstock.storage.postgres_writer import GroupWriter, Statement
    from penstock.storage.scrubbing import ScrubPiece
    from penstock.wire.batch import BatchHeader, Buffer


class Tools(NamedTuple):
    """What all logs of a node share."""

    node_id: int
    database: Database
    owner: Owner
    writer: GroupWriter
    reaper: Reaper
    cache: ChunkCache


class PostgresBackend:
    is_local = False

    def __init__(self, log_id: int, tools: Tools, clean_end: int | None) -> None:
        self.log_id = log_id
        self.clean_end = clean_end
        """As stored: set by a clean close, gone with the first write after it."""
        self._node_id = tools.node_id
        self._database = tools.database
        self._owner = tools.owner
        self._writer = tools.writer
        self._reaper = tools.reaper
        self._cache = tools.cache
        self._segments: list[Extent] = []
        self._bases: list[int] = []
        self._blobs: dict[str, bytes] = {}
        self._unpublished: list[Chunk] = []

    def check(self) -> None:
        """StorageError while it makes no sense to take in more."""
        self._writer.check()

    def check_owner(self) -> None:
        """StorageError while nothing can be changed."""
        self._owner.query("reach", "SELECT 1", ())

    # Opening and closing

    def load(self, config: LogConfig) -> Loaded:  # noqa: ARG002
        what = "open a log"
        blobs = self._owner.query(
            what, "SELECT name, data FROM penstock.blobs WHERE log_id = %s", (self.log_id,)
        )
        self._blobs = {name: bytes(data) for name, data in blobs}
        segments = []
        for base, end, size, first, largest in self._owner.query(what, READ_SEGMENTS, (self.log_id,)):
            if size is None:
                segment = self._active(base, base if end is None else end)
            else:
                segment = Extent(base)
                segment.grow(size, end, first, largest)
            segments.append(segment)
        self._publish(segments)
        if self.clean_end is not None:
            return Loaded(True, self.clean_end if segments else None)
        return Loaded(False, segments[-1].end_offset if segments else None)

    def close(self, *, end_offset: int | None, blobs: Sequence[tuple[str, bytes]] = ()) -> None:
        try:
            if end_offset is not None and (self.clean_end != end_offset or blobs):
                self._change(
                    "close a log",
                    [*self._put(blobs), (SET_CLEAN, (end_offset, self.log_id))],
                )
                self._blobs.update(blobs)
                self.clean_end = end_offset
        finally:
            self._cache.forget(self.log_id)

    def _publish(self, segments: list[Extent]) -> None:
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]

    # Writing, in a writer thread

    def write(self, runs: Sequence[WriteRun], blobs: Sequence[tuple[str, bytes]], *, sync: bool) -> None:
        chunks: list[Chunk] = []
        statements: list[Statement] = []
        if self.clean_end is not None:
            statements.append((SET_CLEAN, (None, self.log_id)))
        statements += self._put(blobs)
        tail = Extent(self._bases[-1], self._segments[-1]) if self._segments else None
        removed: list[str] = []
        for run in runs:
            if run.roll:
                if tail is not None:
                    statements.append(self._close_segment(tail))
                tail = Extent(run.segment)
                statements.append((INSERT_SEGMENT, (Int8(self.log_id), Int8(run.segment))))
            statements += self._put(run.blobs)
            if run.stale_blobs:
                statements.append((REMOVE_BLOBS, (self.log_id, run.stale_blobs)))
                removed += run.stale_blobs
            assert tail is not None, "the first run of a log begins a segment"
            for chunk in chunks_of(run.buffers):
                chunks.append(chunk)
                statements.append(insert_chunk(self.log_id, chunk))
            if run.buffers:
                tail.grow(tail.size + run.size, run.end_offset, run.first_timestamp, run.max_timestamp)
        self._writer.write(statements, sum(chunk.size for chunk in chunks), sync=sync)
        self.clean_end = None
        self._unpublished = chunks
        self._blobs.update(blobs)
        for run in runs:
            self._blobs.update(run.blobs)
        for name in removed:
            self._blobs.pop(name, None)

    def _close_segment(self, segment: Extent) -> Statement:
        values = (segment.end_offset, segment.size, segment.first_timestamp, segment.max_timestamp)
        return CLOSE_SEGMENT, (*map(Int8, values), Int8(self.log_id), Int8(segment.base_offset))

    def _put(self, blobs: Sequence[tuple[str, bytes]]) -> list[Statement]:
        return [(PUT_BLOB, (self.log_id, name, data)) for name, data in blobs]

    # From here on, by the owner

    def written(self, runs: Sequence[WriteRun]) -> None:
        for run in runs:
            if run.roll:
                self._publish([*self._segments, Extent(run.segment)])
            if run.buffers:
                last = self._segments[-1]
                last.grow(last.size + run.size, run.end_offset, run.first_timestamp, run.max_timestamp)
        self._cache.put(self.log_id, self._unpublished)
        self._unpublished = []

    def unmark_clean(self) -> None:
        """What is stored changes in one step with the mark, so it need not go first."""

    def truncate(self, offset: int) -> int:
        kept = [segment for segment in self._segments[1:] if segment.base_offset < offset]
        kept.insert(0, self._segments[0])
        last = kept[-1]
        changes: list[Statement] = [
            spare(self.log_id, offset),
            (DELETE_SEGMENTS, (self.log_id, last.base_offset + 1, OFFSET_MAX)),
            (DELETE_CHUNKS, (self.log_id, offset, OFFSET_MAX)),
        ]
        end_offset = offset
        cut = self._stored(offset, 1, OFFSET_MAX)
        if cut:
            count = cut[0].find(offset)
            end_offset = min(offset, cut[0].bases[count])
            if count:
                changes.append(insert_chunk(self.log_id, cut[0].before(count)))
        last_end = min(last.end_offset, end_offset)
        changes.append((REOPEN_SEGMENT, (last_end, self.log_id, last.base_offset)))
        self._change("truncate a log", changes)
        kept[-1] = self._active(last.base_offset, last_end)
        self._publish(kept)
        return end_offset

    def _active(self, base_offset: int, end_offset: int) -> Extent:
        """The last segment, as its chunks add up; it may reach beyond them where some were compacted away."""
        segment = Extent(base_offset)
        end, size, largest, first = self._owner.query(
            "sum up a segment of", SUM_UP, (self.log_id, base_offset)
        )[0]
        if end is not None:
            segment.grow(size, end, NO_TIMESTAMP if first is None else first, largest)
        segment.end_offset = max(segment.end_offset, end_offset)
        return segment

    def reset(self, offset: int) -> None:
        self._change(
            "empty a log",
            [
                doom(self._node_id, self.log_id, offset),
                (DELETE_SEGMENTS, (self.log_id, 0, OFFSET_MAX)),
                (DELETE_CHUNKS, (self.log_id, offset, OFFSET_MAX)),
                (INSERT_SEGMENT, (Int8(self.log_id), Int8(offset))),
            ],
        )
        self._reaper.wake()
        self._publish([Extent(offset)])

    def drop_front(self, count: int) -> None:
        start = self._bases[count]
        self._change(
            "delete from a log",
            [doom(self._node_id, self.log_id, start), (DELETE_SEGMENTS, (self.log_id, 0, start - 1))],
        )
        self._reaper.wake()
        self._publish(self._segments[count:])

    def _change(self, what: str, statements: list[Statement]) -> None:
        """In one transaction, and what was read of this log before is forgotten."""
        self._owner.change(what, [(SET_CLEAN, (None, self.log_id)), *statements])
        self.clean_end = None
        self._cache.forget(self.log_id)

    # Reading

    def segments(self) -> list[SegmentInfo]:
        return [_info(segment) for segment in self._segments]

    def read(self, offset: int, size_max: int, end_offset: int) -> Buffer:
        at = max(bisect_right(self._bases, offset) - 1, 0)
        while at < len(self._segments) and self._bases[at] < end_offset:
            segment = self._segments[at]
            if segment.size and offset < segment.end_offset:
                start = max(offset, segment.base_offset)
                data = self._read_segment(start, size_max, min(end_offset, segment.end_offset))
                if data:
                    return data
            at += 1
        return b""

    def _read_segment(self, offset: int, size_max: int, end_offset: int) -> Buffer:
        chunks = self._cache.get(self.log_id, offset, size_max)
        if not chunks:
            chunks = self._stored(offset, size_max, end_offset)
            self._cache.put(self.log_id, chunks)
        parts: list[memoryview] = []
        size = 0
        for chunk in chunks:
            room = max(size_max - size, 0)
            first = chunk.find(offset)
            part = chunk.between(first, room, end_offset, at_least=0 if parts else 1)
            if not part:
                break
            parts.append(part)
            size += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _stored(self, offset: int, size_max: int, end_offset: int) -> list[Chunk]:
        """From the chunk that holds the offset, or the next there is; about that many bytes."""
        rows = self._owner.query("read", READ_CHUNKS, (self.log_id, offset, end_offset, max(size_max, 1)))
        return [Chunk.parse(bytes(data)) for (data,) in rows]

    def seek_time(self, timestamp: int) -> int:
        for segment in self._segments:
            if segment.max_timestamp >= timestamp:
                found = self._owner.query(
                    "look up a time",
                    "SELECT base_offset FROM penstock.chunks WHERE log_id = %s AND last_offset >= %s"
                    " AND max_timestamp >= %s ORDER BY last_offset LIMIT 1",
                    (self.log_id, segment.base_offset, timestamp),
                )
                return int(found[0][0]) if found else segment.base_offset
        return self._segments[-1].end_offset if self._segments else 0

    def max_timestamp_before(self, end_offset: int) -> tuple[int, int]:
        largest, offset = NO_TIMESTAMP, 0
        for segment in self._segments:
            if segment.base_offset >= end_offset:
                break
            offset = segment.base_offset
            if segment.end_offset <= end_offset:
                largest, offset = max(largest, segment.max_timestamp), segment.end_offset
                continue
            found = self._owner.query(
                "look up a time",
                "SELECT max(max_timestamp), max(last_offset) + 1 FROM penstock.chunks"
                " WHERE log_id = %s AND last_offset BETWEEN %s AND %s",
                (self.log_id, segment.base_offset, end_offset - 1),
            )[0]
            if found[0] is not None:
                largest, offset = max(largest, found[0]), found[1]
        return largest, offset

    # Compaction

    def damage(self) -> list[DamagedRange]:
        return []  # PostgreSQL checks its own pages, with data_checksums

    def scrub_pieces(self) -> Iterator[ScrubPiece]:
        return iter(())

    def confirm(self, piece: ScrubPiece) -> None:
        raise NotImplementedError  # there are no pieces

    def mend(self, damage: DamagedRange, data: bytes) -> bool:
        raise NotImplementedError  # there is no damage

    def compaction_source(self, segments: Sequence[SegmentInfo]) -> CompactionSource:  # noqa: ARG002
        return CompactionSource(None, None, self._round)

    def _round(self, plan: CompactionPlan) -> PostgresRound:
        return PostgresRound(plan, self._database, self._node_id, self.log_id)

    def _staged(self, plan: CompactionPlan) -> list[tuple[int, int]]:
        found = self._owner.query("look for compacted segments", STAGED, (self._node_id, plan.run))
        return [(staging_id, grave_id) for staging_id, grave_id in found]

    def swap(self, result: CompactionResult) -> None:
        plan = result.plan
        gone = {segment.base_offset for segment in plan.segments}
        bounds = plan.segments[0].base_offset, plan.end_offset - 1
        (staged,) = self._staged(plan)
        changes = swapped(self._node_id, self.log_id, bounds, staged)
        changes.append((DELETE_SEGMENTS, (self.log_id, *bounds)))
        fresh = []
        for made in result.segments:
            segment = Extent(made.base_offset)
            segment.grow(made.size, made.end_offset, made.first_timestamp, made.max_timestamp)
            fresh.append(segment)
            changes.append((INSERT_SEGMENT, (Int8(self.log_id), Int8(made.base_offset))))
            changes.append(self._close_segment(segment))
        self._change("put compacted segments in place in", changes)
        self._reaper.wake()
        kept = [segment for segment in self._segments if segment.base_offset not in gone]
        self._publish(sorted(kept + fresh, key=lambda segment: segment.base_offset))

    def discard(self, plan: CompactionPlan) -> None:
        for staging_id, _ in self._staged(plan):
            self._owner.change("discard compacted segments", discarded(self._node_id, staging_id))
            self._reaper.wake()

    # Blobs

    def get_blob(self, name: str) -> bytes | None:
        return self._blobs.get(name)

    def put_blob(self, name: str, data: bytes) -> None:
        self._owner.change("write a note", self._put([(name, data)]))
        self._blobs[name] = data

    def remove_blobs(self, names: Sequence[str]) -> None:
        gone = [name for name in names if name in self._blobs]
        if gone:
            self._owner.change("remove notes", [(REMOVE_BLOBS, (self.log_id, gone))])
        for name in gone:
            del self._blobs[name]

    def blob_names(self) -> list[str]:
        return list(self._blobs)


class PostgresLog(PartitionLog):
    """A log that takes nothing in while its database has been away for a while: see postgres_writer.py."""

    _backend: PostgresBackend

    def append(self, batch: Buffer, header: BatchHeader, *, leader_epoch: int, now_ms: int) -> int:
        self._backend.check()
        return super().append(batch, header, leader_epoch=leader_epoch, now_ms=now_ms)

    def append_fetched(self, records: Buffer, *, now_ms: int) -> None:
        self._backend.check()
        super().append_fetched(records, now_ms=now_ms)

    def truncate_to(self, offset: int) -> None:
        self._backend.check_owner()  # or it would fail half way, for good
        super().truncate_to(offset)


def _info(segment: Extent) -> SegmentInfo:
    return SegmentInfo(
        segment.base_offset, segment.end_offset, segment.size, segment.first_timestamp, segment.max_timestamp
    )
