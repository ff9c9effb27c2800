"""A partition's log: offsets, epochs, producers and ends over a backend that places the bytes.

One thread owns a log. `append` assigns offsets and queues the batch: no system call, no copy. `take_flush`
hands the queue to a job that a writer thread runs, `finish_flush` publishes what it wrote. Three ends follow
each other: `log_end_offset` (assigned), the job in flight, `flushed_end_offset` (counts for acknowledgements
and may be read). A job that fails turns the log read-only for the rest of its life: `flushed_end_offset`
stays, appends raise, and the next start decides by what is on disk.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.storage import compaction, opening, retention, timestamps
from penstock.storage.blobs import seal, unseal
from penstock.storage.config import MIB, Flush
from penstock.storage.errors import HalfDoneError, StorageError, os_failure
from penstock.storage.flush import FlushJob
from penstock.storage.interface import WriteRun
from penstock.storage.pending import PendingWrites
from penstock.storage.producers import ProducerStates
from penstock.types import ApiError, ErrorCode
from penstock.wire.batch import (
    HEADER_SIZE,
    NO_PRODUCER_ID,
    BatchError,
    check_batch,
    iterate_headers,
    read_header,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from penstock.storage.compaction import CompactionPlan, CompactionResult
    from penstock.storage.config import LogConfig
    from penstock.storage.interface import DamagedRange, LogBackend, SegmentInfo
    from penstock.storage.scrubbing import ScrubPiece
    from penstock.storage.timestamps import TimestampedOffset
    from penstock.wire.batch import BatchHeader, Buffer

REPLAY_BYTES = 1 * MIB
SNAPSHOTS_KEPT = 2


class PartitionLog:
    def __init__(
        self, name: str, topic_id: UUID, config: LogConfig, backend: LogBackend, now_ms: int
    ) -> None:
        """Opens what the backend holds. Raises StorageError when it must not be opened."""
        self.name = name
        self.topic_id = topic_id
        self.config = config
        self.error: StorageError | None = None
        """Set: read-only."""
        self._backend = backend
        try:
            state = opening.open_state(backend, config, now_ms)
        except BaseException as error:
            backend.close(end_offset=None)
            if isinstance(error, OSError):
                raise os_failure("open", name, error) from error
            raise
        self.epochs = state.epochs
        self.producers = state.producers
        self.log_start_offset = state.log_start_offset
        self.log_end_offset = state.end_offset
        self.flushed_end_offset = state.end_offset
        self.recovery = [f"{name}: {line}" for line in state.report]
        """Human-readable lines of what opening had to repair or cut."""
        self.is_durable = state.closed_cleanly or config.flush is Flush.COMMIT
        """What was found was on disk, and not in the page cache of the machine only."""
        self._snapshots = state.snapshots
        self._epochs_stored = state.epochs_stored
        self._now_ms = now_ms
        self._pending = PendingWrites(backend.segments())
        self._in_flight: FlushJob | None = None
        self._compacting: str | None = None
        """The run whose plan speaks of the segments as they are."""
        self.closed = False

    # Writing

    def append(self, batch: Buffer, header: BatchHeader, *, leader_epoch: int, now_ms: int) -> int:
        """Queue a checked batch under the next offsets and return its base offset."""
        if self.error is not None:
            raise StorageError(str(self.error))  # a new one each time: a raised one keeps its callers alive
        base_offset = self.log_end_offset
        self._queue(batch, header, base_offset, leader_epoch, now_ms)
        return base_offset

    def append_fetched(self, records: Buffer, *, now_ms: int) -> None:
        """Queue whole batches from the leader's log, with the offsets and epochs that they have there.

        Offsets may be missing, as compaction leaves it, and never go back. What does not fit, or is
        damaged, is a StorageError, and then nothing of `records` is queued.
        """
        if self.error is not None:
            raise StorageError(str(self.error))
        view = memoryview(records)
        if self.log_end_offset == self.log_start_offset and len(view) >= HEADER_SIZE:
            self._begin_within(read_header(view))
        batches = []
        end = 0
        next_offset, epoch = self.log_end_offset, self.epochs.latest
        try:
            for position, header in iterate_headers(view):
                batch = view[position : position + header.size]
                check_batch(batch, position)
                if header.base_offset < next_offset or header.partition_leader_epoch < epoch:
                    raise BatchError(
                        position,
                        f"offset {header.base_offset} of epoch {header.partition_leader_epoch}"
                        f" after offset {next_offset} of epoch {epoch}",
                    )
                next_offset, epoch = header.next_offset, header.partition_leader_epoch
                end = position + header.size
                batches.append((batch, header))
            if end < len(view):
                raise BatchError(end, f"{len(view) - end} bytes that are no whole batch")
        except BatchError as error:
            raise StorageError(f"{self.name}: what was fetched is damaged: {error}") from error
        for batch, header in batches:
            self._queue(batch, header, header.base_offset, header.partition_leader_epoch, now_ms)

    def _begin_within(self, first: BatchHeader) -> None:
        """An empty log that starts in the middle of a batch takes the whole batch."""
        if first.base_offset < self.log_start_offset <= first.last_offset:
            try:
                self._backend.reset(first.base_offset)
            except OSError as error:
                self._fail(os_failure("empty", self.name, error))
                raise StorageError(str(self.error)) from error
            self.log_end_offset = self.flushed_end_offset = first.base_offset
            self._pending = PendingWrites(self._backend.segments())

    def _queue(
        self, batch: Buffer, header: BatchHeader, base_offset: int, leader_epoch: int, now_ms: int
    ) -> None:
        pending = self._pending
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, base_offset)
        if pending.must_roll(header, self.config, now_ms):
            self._roll(
                self.log_end_offset
            )  # without a gap, also where compaction has left one: see recovery.py
        elif pending.must_checkpoint(self.config):
            self._add_snapshot(pending.checkpoint(self.log_end_offset), self.log_end_offset)
        pending.add(batch, header, base_offset, leader_epoch, self.config.index_interval_bytes)
        if header.producer_id != NO_PRODUCER_ID:
            self.producers.update(header, base_offset, now_ms, opening.marker_in(batch, header))
        self._now_ms = now_ms
        self.log_end_offset = base_offset + header.last_offset_delta + 1

    def begin_epoch(self, leader_epoch: int) -> None:
        """A leader's epoch begins at the end of the log; on disk with the next flush."""
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, self.log_end_offset)

    def _roll(self, base_offset: int) -> None:
        first = not self._pending.has_segment
        run = self._pending.roll(base_offset)
        if not first:
            self._add_snapshot(run, base_offset)

    def _add_snapshot(self, run: WriteRun, offset: int) -> None:
        run.blobs.append((opening.snapshot_name(offset), opening.encode_snapshot(self.producers, offset)))
        if offset not in self._snapshots:
            self._snapshots.append(offset)
        run.stale_blobs += [opening.snapshot_name(old) for old in self._snapshots[:-SNAPSHOTS_KEPT]]
        del self._snapshots[:-SNAPSHOTS_KEPT]

    def take_flush(self) -> FlushJob | None:
        """All that is queued, as a job to run; None when nothing is, a job is under way, or read-only."""
        if self._in_flight is not None or self.error is not None:
            return None
        blobs = []
        if self.epochs.version != self._epochs_stored:
            blobs.append((opening.EPOCHS, seal(self.epochs.entries)))
        if not self._pending.runs and not blobs:
            return None
        self._in_flight = FlushJob(
            self.name,
            self._backend,
            self._pending.take(),
            blobs,
            sync=self.config.flush is Flush.COMMIT,
            end_offset=self.log_end_offset,
            epochs_version=self.epochs.version,
        )
        return self._in_flight

    @property
    def is_flushing(self) -> bool:
        """A job is in flight. Truncation, closing and deletion wait for it."""
        return self._in_flight is not None

    def finish_flush(self, job: FlushJob) -> None:
        assert job is self._in_flight, "finish_flush takes the job that take_flush gave"
        self._in_flight = None
        if job.error is None:
            try:
                self._backend.written(job.runs)
            except OSError as error:
                job.error = os_failure("read", self.name, error)
        if self.error is not None:
            return  # it was given up meanwhile
        if job.error is not None:
            self._fail(job.error)
            return
        self._epochs_stored = job.epochs_version
        self.flushed_end_offset = job.end_offset
        job.runs = []

    def flush(self) -> None:
        """Write and sync all that is queued, here and now; the log may be read-only afterwards."""
        while (job := self.take_flush()) is not None:
            job.run()
            self.finish_flush(job)

    def give_up(self, reason: str) -> None:
        """Read-only from now on, for a reason that the log does not know of itself."""
        if self.error is None:
            self._fail(StorageError(reason))

    def _fail(self, error: StorageError) -> None:
        self.error = StorageError(
            f"{error}; {self.name} is read-only from offset {self.flushed_end_offset} on"
        )
        self._pending.take()

    # Reading

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._backend.segments())

    def read(self, offset: int, size_max: int, *, end_offset: int) -> Buffer:
        """Whole batches of one segment, the first being the one that holds `offset`, even if it is larger
        than `size_max`; none begins at or after `end_offset`. Empty when there is nothing to read."""
        end_offset = min(end_offset, self.flushed_end_offset)
        if offset >= end_offset:
            return b""
        if offset < self.log_start_offset:
            raise ApiError(
                ErrorCode.offset_out_of_range, f"offset {offset}, the log starts at {self.log_start_offset}"
            )
        try:
            return self._backend.read(offset, size_max, end_offset)
        except OSError as error:
            raise os_failure("read", self.name, error) from error

    def batches(self, offset: int, end_offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Every batch from the one that holds `offset` on, for replay."""
        offset = max(offset, self.log_start_offset)
        while data := self.read(offset, REPLAY_BYTES, end_offset=end_offset):
            view = memoryview(data)
            try:
                for position, header in iterate_headers(view):
                    yield header, view[position : position + header.size]
                    offset = header.next_offset
            except BatchError as error:
                raise StorageError(f"{self.name} is damaged after offset {offset}: {error}") from error

    def find_by_time(self, timestamp_ms: int, *, end_offset: int) -> TimestampedOffset | None:
        """The first record at or after the time."""
        return timestamps.find_by_time(self, self._backend, timestamp_ms, end_offset)

    def max_timestamp(self, *, end_offset: int) -> TimestampedOffset | None:
        """The first record with the largest timestamp."""
        return timestamps.find_max(self, self._backend, end_offset)

    def damage(self) -> list[DamagedRange]:
        """What is known to be damaged by now: reads that reach it raise RotError."""
        return self._backend.damage()

    @property
    def closed_bytes(self) -> int:
        """Of all segments but the last."""
        return sum(segment.size for segment in self._backend.segments()[:-1])

    @property
    def compacted_to(self) -> int:
        """Batches before this offset may not be those that other replicas have."""
        try:
            return compaction.CleanerState.load(self._backend).cleaned_to
        except OSError as error:
            raise os_failure("read", f"{self.name}/{compaction.CLEANER}", error) from error

    def scrub_pieces(self) -> Iterator[ScrubPiece]:
        """What is closed, to be checked in another thread; `confirm` is told of each that is not good."""
        return self._backend.scrub_pieces()

    def confirm(self, piece: ScrubPiece) -> list[DamagedRange]:
        """What is newly found to be damaged there."""
        known = self.damage()
        try:
            self._backend.confirm(piece)
        except OSError as error:
            raise os_failure("read", self.name, error) from error
        return [each for each in self.damage() if each not in known]

    def mend(self, damage: DamagedRange, data: bytes) -> bool:
        """Write whole batches of another replica over what is damaged; whether they are sound and fit."""
        try:
            return self._backend.mend(damage, data)
        except OSError as error:
            raise os_failure("mend", self.name, error) from error

    # Changing what is there

    def reconfigure(self, config: LogConfig) -> None:
        self.config = config

    def truncate_to(self, offset: int) -> None:
        """Remove every batch that reaches `offset` or more, with the epochs and producer state it brought."""
        assert self._in_flight is None, "truncation waits for the job in flight"
        if self.error is not None:
            raise StorageError(str(self.error))
        if offset >= self.log_end_offset:
            self.epochs.truncate_end(offset)  # one that began at the end, and brought nothing
            return
        if offset > self.flushed_end_offset:
            self.flush()  # some of the queue stays, and only the backend finds a place in it
            if self.error is not None:
                raise StorageError(str(self.error))
        self._compacting = None
        try:
            self._truncate_stored(offset)
        except (OSError, StorageError) as error:  # it may have stopped anywhere
            reason = os_failure("truncate", self.name, error) if isinstance(error, OSError) else error
            self._fail(reason)
            raise StorageError(str(self.error)) from error

    def _truncate_stored(self, offset: int) -> None:
        self._backend.unmark_clean()  # or a snapshot that is on its way would come back after it was removed
        self._pending.take()
        stale = [old for old in self._snapshots if old > offset]
        self._backend.remove_blobs([opening.snapshot_name(old) for old in stale])
        compaction.truncated(self._backend, offset)
        end_offset = self._truncate_backend(offset)
        self.epochs.truncate_end(end_offset)
        self._backend.put_blob(opening.EPOCHS, seal(self.epochs.entries))
        self._epochs_stored = self.epochs.version
        self._snapshots = [old for old in self._snapshots if old <= end_offset]
        self.producers = opening.restore_producers(
            self._backend, self._snapshots, self.log_start_offset, end_offset, self._now_ms, []
        )
        self.log_end_offset = self.flushed_end_offset = end_offset
        self._pending = PendingWrites(self._backend.segments())

    def _truncate_backend(self, offset: int) -> int:
        """The new end. Nothing visible may remain below the log start, so there the log begins anew."""
        self.log_start_offset = min(self.log_start_offset, offset)
        if not self._backend.segments():
            return offset  # all there was is the queue
        if offset > self.log_start_offset:
            end_offset = self._backend.truncate(offset)
            if end_offset >= self.log_start_offset:
                return end_offset
        self._backend.put_blob(
            opening.LOG_START, seal(self.log_start_offset)
        )  # should a crash leave nothing else
        self._backend.reset(self.log_start_offset)
        return self.log_start_offset

    def restart_at(self, offset: int) -> None:
        """Forget everything and begin anew at `offset`: the leader has nothing left of what comes before."""
        assert self._in_flight is None, "a new beginning waits for the job in flight"
        if self.error is not None:
            raise StorageError(str(self.error))
        self.truncate_to(self.log_start_offset)
        # One may have begun before the log start, in a batch that reaches beyond it.
        self.epochs.truncate_end(0)
        try:
            self._backend.put_blob(opening.EPOCHS, seal(self.epochs.entries))
            self._backend.remove_blobs([opening.snapshot_name(old) for old in self._snapshots])
            self._backend.put_blob(opening.LOG_START, seal(offset))
            self._backend.reset(offset)
        except OSError as error:
            self._fail(os_failure("empty", self.name, error))
            raise StorageError(str(self.error)) from error
        self._epochs_stored = self.epochs.version
        self.log_start_offset = self.log_end_offset = self.flushed_end_offset = offset
        self.producers = ProducerStates()  # what they wrote last may be in what we never had
        self._snapshots = []
        self._pending = PendingWrites(self._backend.segments())

    def delete_records_before(self, offset: int) -> None:
        """Move the log start, durably; segments that lie wholly before it go.

        If that leaves most of the active segment unreadable, it is closed, so that it goes in its turn: at
        once where nothing of it can be read any more.
        """
        if offset <= self.log_start_offset:
            return
        if offset > self.flushed_end_offset:
            raise ApiError(
                ErrorCode.offset_out_of_range, f"offset {offset}, the log ends at {self.flushed_end_offset}"
            )
        try:
            self._backend.put_blob(opening.LOG_START, seal(offset))
            self._start_at(offset)
            self._drop_unreadable()
        except OSError as error:
            raise os_failure("delete from", self.name, error) from error

    def _drop_unreadable(self) -> None:
        offset, active = self.log_start_offset, self._pending.active
        if self.error is None and active is not None:
            is_due = retention.is_mostly_before(*active, end_offset=self.log_end_offset, offset=offset)
            if is_due and offset == self.log_end_offset:
                self._roll_now()
            elif is_due:
                self._roll(self.log_end_offset)  # it is written with what is appended next
        self._drop_front(retention.segments_before(self._backend.segments(), offset))

    def _start_at(self, offset: int) -> None:
        self.log_start_offset = offset
        self.epochs.truncate_start(offset)
        self.producers.transactions.start_at(offset)

    def _drop_front(self, count: int) -> None:
        if count:
            self._backend.drop_front(count)

    def apply_retention(self, *, now_ms: int, high_watermark: int) -> list[str]:
        """Drop closed segments that time or size condemns, and silent producers; what went and why.

        Also on a read-only log: on a full disk this is what makes room.
        """
        self.producers.expire(now_ms, self.config.producer_expiration_ms)
        if not self.config.delete:
            return []
        segments, condemned = self._condemned(self.config, now_ms, high_watermark)
        try:
            if not condemned:
                self._drop_unreadable()  # what a job in flight was in the way of, when the start moved
                return []
            count = len(condemned)
            self._start_at(max(self.log_start_offset, segments[count].base_offset))
            self._drop_front(count)
        except OSError as error:
            raise os_failure("delete from", self.name, error) from error
        return [
            f"{self.name}: dropped offsets {segment.base_offset} to {segment.end_offset - 1} "
            f"({segment.size} bytes): {reason}"
            for segment, reason in zip(segments, condemned, strict=False)
        ]

    def start_within(
        self, *, retention_ms: int, retention_bytes: int, now_ms: int, high_watermark: int
    ) -> int:
        """Where the log would start if it were kept within these limits; its start, if it is."""
        limits = replace(self.config, retention_ms=retention_ms, retention_bytes=retention_bytes)
        segments, condemned = self._condemned(limits, now_ms, high_watermark)
        return max(self.log_start_offset, segments[len(condemned)].base_offset if condemned else 0)

    def _condemned(
        self, limits: LogConfig, now_ms: int, high_watermark: int
    ) -> tuple[list[SegmentInfo], list[str]]:
        """All segments, and why the first of them have to go; the active one is closed if it must, too."""
        bound = min(high_watermark, self.flushed_end_offset)
        if self.error is None and retention.active_is_expired(
            self._backend.segments(), limits, now_ms, bound
        ):
            self._roll_now()
        segments = self._backend.segments()
        return segments, retention.condemned(segments, limits, now_ms, bound)

    def _roll_now(self) -> None:
        """Close the active segment although nothing is appended, unless a job makes this the wrong moment."""
        if self._in_flight is None and not self._pending.runs:
            self._roll(self.log_end_offset)
            self.flush()

    # Notes: small things beside the log that its owner must not forget

    def get_note(self, name: str) -> Any:
        """What was put under the name; None if there is nothing. StorageError if it is damaged."""
        try:
            data = self._backend.get_blob(name)
        except OSError as error:
            raise os_failure("read", f"{self.name}/{name}", error) from error
        if data is None:
            return None
        note = unseal(data)
        if note is None:
            raise StorageError(f"{name} of {self.name} is damaged")
        return note

    def put_note(self, name: str, note: Any) -> None:
        """Durable when it returns."""
        try:
            self._backend.put_blob(name, seal(note))
        except OSError as error:
            raise os_failure("write", f"{self.name}/{name}", error) from error

    # Compaction

    def compaction_plan(self, now_ms: int, bound: int) -> CompactionPlan | None:
        """What is worth compacting now, for `run_compaction` in another thread or process.

        Nothing at or after `bound` takes part: the last stable offset.
        """
        if self.error is not None or not self.config.compact:
            return None
        bound = min(bound, self.flushed_end_offset)
        try:
            plan = compaction.make_plan(
                self.name, self._backend, self.config, self.producers, self.log_start_offset, bound, now_ms
            )
        except OSError as error:
            raise os_failure("plan the compaction of", self.name, error) from error
        self._compacting = plan.run if plan else None
        return plan

    def discard_compaction(self, plan: CompactionPlan) -> None:
        """The plan was not carried out, or not to its end: remove what may be left of it."""
        if plan.run == self._compacting:
            self._compacting = None
        try:
            self._backend.discard(plan)
        except OSError as error:
            raise os_failure("remove compacted segments of", self.name, error) from error

    def finish_compaction(self, result: CompactionResult) -> list[str]:
        """Put the result in place, unless the segments changed meanwhile; what was gained."""
        if self.closed or self.error is not None:
            state = "has been closed" if self.closed else "has become read-only"
            self.discard_compaction(result.plan)
            return [f"{self.name}: a compaction was dropped, the log {state} meanwhile"]
        changed = self._compacting != result.plan.run
        self._compacting = None
        try:
            return compaction.finish(self.name, self._backend, self.config, result, changed=changed)
        except HalfDoneError as error:
            self._fail(error)
            raise StorageError(str(self.error)) from error
        except OSError as error:
            with suppress(StorageError):  # it says less than why it was not put in place
                self.discard_compaction(result.plan)
            raise os_failure("swap compacted segments of", self.name, error) from error

    def close(self) -> None:
        """Flush all, write indexes and snapshot, mark as clean. A read-only log is left to recovery."""
        if self.closed:
            return
        assert self._in_flight is None, "closing waits for the job in flight"
        self.flush()
        self.closed = True
        try:
            if self.error is not None:
                self._backend.close(end_offset=None)
                return
            last = WriteRun(0)
            if self._snapshots[-1:] != [self.log_end_offset]:
                self._add_snapshot(last, self.log_end_offset)
            self.error = StorageError(f"{self.name} is closed")
            self._backend.close(end_offset=self.log_end_offset, blobs=last.blobs)
            self._backend.remove_blobs(last.stale_blobs)
        except OSError as error:
            raise os_failure("close", self.name, error) from error

    def abandon(self) -> None:
        """The log is about to be deleted: let go of it without writing anything."""
        self.closed = True
        self._pending.take()
        self.error = self.error or StorageError(f"{self.name} is deleted")
        self._backend.close(end_offset=None)
