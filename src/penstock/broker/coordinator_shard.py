"""Runs a coordinator's core for one partition of its internal topic, on the event loop.

Requests become futures that the core's answers complete. Writes queue up and are appended by one task, as
many as are waiting in one batch, so that a request waits for the disk about once however many come at the
same time; the core hears of them in the order in which it asked for them.

A shard is good for one leader epoch. When the partition is led by another, or in a later epoch, the shard
resigns: everybody who waits is sent to look for the coordinator again.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from penstock.types import ApiError, ErrorCode
from penstock.wire.compression import CompressionError
from penstock.wire.fields import RecordError
from penstock.wire.records import Record, RecordsError, decode_records, encode_batch

if TYPE_CHECKING:
    from penstock.broker.partition import Partition
    from penstock.wire.batch import BatchHeader

log = logging.getLogger(__name__)

KeyValue = tuple[bytes, bytes | None]
Reply = TypeVar("Reply")
Write = TypeVar("Write")

WRITE_RECORDS_MAX: Final = 1_000
"""Records that are joined into one batch; a single request may exceed it, for it is written as a whole."""
LOAD_BYTES_AT_ONCE: Final = 1 << 18
"""Replayed before other work on the event loop gets its turn."""
CLOSE_S_MAX: Final = 1.0
APPEND_S_MAX: Final = 10.0
"""For a write to be committed. Longer than a follower that is gone takes to leave the in-sync set."""
WRITES_MAX: Final = 10_000
"""Waiting to be written; beyond it requests are told to come again."""

# Why the log did not take a record, in the words of a coordinator: look for it again, or try later.
_AS_COORDINATOR: Final = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
}


def records_at(pairs: Sequence[KeyValue], now_ms: int) -> list[Record]:
    return [Record(offset, now_ms, key, value) for offset, (key, value) in enumerate(pairs)]


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A write that changes nothing: once committed, its writer has led until after it was asked for."""

    token: int


class CoordinatorShard(ABC, Generic[Write, Reply]):
    confirmation: KeyValue
    """A tombstone of what cannot exist: replayed, it removes nothing, and of many compaction keeps one."""

    def __init__(self, partition: Partition, now_ms: Callable[[], int]) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.is_loading = True
        self.is_resigned = False
        self.now_ms = now_ms
        self._tokens = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._writes: deque[Write | Confirmation] = deque()
        self._writer: asyncio.Task[None] | None = None

    # What a coordinator is

    @abstractmethod
    def replay(self, record: Record, header: BatchHeader) -> None:
        """Give the core one record. Raises RecordError if it cannot be understood."""

    def replay_control(self, batch: memoryview, header: BatchHeader) -> None:
        """Give the core a control batch."""

    @abstractmethod
    def loaded(self) -> str:
        """The log has been replayed: begin to serve. Says what was found."""

    @abstractmethod
    def records_of(self, write: Write) -> Sequence[KeyValue]: ...

    def own_batch(self, write: Write) -> bytes | None:
        """The batch of a write that is not joined with others."""
        del write
        return None

    @abstractmethod
    def written(self, write: Write, error: ErrorCode) -> None:
        """Tell the core, and carry out what it says."""

    @abstractmethod
    def stop_timers(self) -> None: ...

    # Whether it serves

    def is_current(self, partition: Partition | None) -> bool:
        return (
            not self.is_resigned
            and partition is self.partition
            and partition.is_leader
            and partition.leader_epoch == self.leader_epoch
        )

    def check_ready(self) -> None:
        if self.is_resigned:
            raise ApiError(ErrorCode.not_coordinator)
        if self.is_loading:
            raise ApiError(ErrorCode.coordinator_load_in_progress)
        if len(self._writes) >= WRITES_MAX:
            raise ApiError(ErrorCode.coordinator_not_available, "too much waits to be written")

    # Loading

    def begin(self) -> bool:
        """Whether the shard serves at once, there being nothing to load; otherwise `load` must follow."""
        if self.partition.log_start_offset < self.partition.log.log_end_offset:
            return False
        self._finish_loading()
        return True

    async def load(self) -> None:
        """Replay the partition to its end. Until all of it is committed requests are told to come again."""
        partition = self.partition
        offset, end_offset = partition.log_start_offset, partition.log.log_end_offset
        # A log is read as far as it is on disk. What is committed is; the rest of it we would pass over.
        await partition.committed(end_offset)
        while offset < end_offset and not self.is_resigned:
            offset = self._load_some(offset, end_offset)
            await asyncio.sleep(0)
        if not self.is_resigned:
            found = self._finish_loading()
            log.info("loaded %s from %s-%d", found, partition.topic, partition.index)

    def _finish_loading(self) -> str:
        self.is_loading = False
        return self.loaded()

    def _load_some(self, offset: int, end_offset: int) -> int:
        size = 0
        for header, batch in self.partition.log.batches(offset, end_offset):
            try:
                self._replay_batch(header, batch)
            except (RecordsError, CompressionError) as error:
                self._report(f"the batch at {header.base_offset}", error)
            size += header.size
            if size >= LOAD_BYTES_AT_ONCE:
                return header.next_offset
        return end_offset

    def _replay_batch(self, header: BatchHeader, batch: memoryview) -> None:
        if header.is_control:
            self.replay_control(batch, header)
            return
        for record in decode_records(batch, header):
            try:
                self.replay(record, header)
            except RecordError as error:
                self._report(f"record {record.offset}", error)

    def _report(self, what: str, error: Exception) -> None:
        log.error("%s-%d: left out %s: %s", self.partition.topic, self.partition.index, what, error)

    # Requests

    async def ask(self, request: Callable[[int], None]) -> Reply:
        """Give the core a request, as a function of a token that names its answer, and wait for that."""
        reply: Reply = await self._ask(request)
        return reply

    async def _ask(self, request: Callable[[int], None]) -> Any:
        self._tokens += 1
        token = self._tokens
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[token] = future
        try:
            request(token)
            return await future
        finally:
            # Also when the client is gone: then the answer, when it comes, has nowhere to go.
            del self._waiting[token]

    def answer(self, token: int, reply: Reply | ErrorCode) -> None:
        future = self._waiting.get(token)
        if future is not None and not future.done():
            future.set_result(reply)

    async def confirm(self) -> None:
        """Write something, so that it is certain that nobody else led before this was called: whoever is
        elected in our place is in sync, so it had what is written here while it followed us. Raises ApiError.
        """
        self.check_ready()
        error = await self._ask(lambda token: self.write(Confirmation(token)))
        if error is not ErrorCode.none:
            raise ApiError(error)

    # Writes

    def write(self, write: Write | Confirmation) -> None:
        self._writes.append(write)
        self._go_on_writing()

    def _go_on_writing(self) -> None:
        if self._writes and self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write_all())
            self._writer.add_done_callback(self._writer_ended)

    async def _write_all(self) -> None:
        while self._writes:
            batch = self._take_writes()
            error = await self._append(batch)
            for write in batch:
                if isinstance(write, Confirmation):
                    self.answer(write.token, error)
                else:
                    self.written(write, error)

    def _records_of(self, write: Write | Confirmation) -> Sequence[KeyValue]:
        return (self.confirmation,) if isinstance(write, Confirmation) else self.records_of(write)

    def _own_batch(self, write: Write | Confirmation) -> bytes | None:
        return None if isinstance(write, Confirmation) else self.own_batch(write)

    def _take_writes(self) -> list[Write | Confirmation]:
        batch = [self._writes.popleft()]
        if self._own_batch(batch[0]) is not None:
            return batch
        count = len(self._records_of(batch[0]))
        while self._writes and self._own_batch(self._writes[0]) is None:
            count += len(self._records_of(self._writes[0]))
            if count > WRITE_RECORDS_MAX:
                break
            batch.append(self._writes.popleft())
        return batch

    async def _append(self, batch: Sequence[Write | Confirmation]) -> ErrorCode:
        data = self._own_batch(batch[0])
        if data is None:
            pairs = [pair for write in batch for pair in self._records_of(write)]
            data = encode_batch(records_at(pairs, self.now_ms()))
        try:
            if self.is_resigned or self.partition.leader_epoch != self.leader_epoch:
                raise ApiError(ErrorCode.not_coordinator)
            async with asyncio.timeout(APPEND_S_MAX):
                await self.partition.append_own(data)
        except TimeoutError:
            # It may yet be committed: what this shard knows is not what the log says. A new one reads that.
            log.warning("%s-%d commits nothing: loading again", self.partition.topic, self.partition.index)
            self.resign()
            return ErrorCode.not_coordinator
        except ApiError as error:
            log.warning("cannot write to %s-%d: %s", self.partition.topic, self.partition.index, error)
            return _AS_COORDINATOR.get(error.code, error.code)
        if self.partition.leader_epoch != self.leader_epoch:
            return ErrorCode.not_coordinator
        return ErrorCode.none

    def _writer_ended(self, task: asyncio.Task[None]) -> None:
        self._writer = None
        if not task.cancelled() and task.exception() is not None:
            log.critical("the writer of %s failed", self.partition.topic, exc_info=task.exception())
            self.resign()
        elif not self.is_resigned:
            self._go_on_writing()

    # Ending

    async def close(self) -> None:
        """Finish the writes under way, as far as that is soon, then resign.

        A write waits for the followers, of whom none may be left.
        """
        try:
            async with asyncio.timeout(CLOSE_S_MAX):
                while self._writer is not None:
                    await asyncio.wait((self._writer,))
        except TimeoutError:
            log.warning("%s-%d: left with writes on their way", self.partition.topic, self.partition.index)
        self.resign()
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.wait((self._writer,))

    def resign(self) -> None:
        self.is_resigned = True
        self.stop_timers()
        self._writes.clear()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ApiError(ErrorCode.not_coordinator))
