"""Runs the groups of one partition of `__consumer_offsets` on the event loop.

Requests become futures that the core's answers complete. Writes queue up and are appended by one task, as
many as are waiting in one batch, so that a commit waits for the disk about once however many groups commit
at the same time; the core hears of them in the order in which it asked for them.

A shard is good for one leader epoch. When the partition is led by another, or in a later epoch, the shard
resigns: everybody who waits is sent to look for the coordinator again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.broker.group_deadlines import Deadlines
from penstock.groups.messages import Answer, Effect, Reply, Write
from penstock.groups.shard import Shard
from penstock.types import ApiError, ErrorCode
from penstock.wire.compression import CompressionError
from penstock.wire.fields import RecordError
from penstock.wire.records import Record, RecordsError, decode_records

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from penstock.broker.partition import Partition
    from penstock.groups.group import Group
    from penstock.groups.limits import GroupLimits

log = logging.getLogger(__name__)

WRITE_RECORDS_MAX: Final = 1_000
"""Records that are joined into one batch; a single request may exceed it, for it is written as a whole."""
LOAD_BYTES_AT_ONCE: Final = 1 << 18
"""Replayed before other work on the event loop gets its turn."""
CLOSE_S_MAX: Final = 1.0

# Why the log did not take a record, in the words of a coordinator: look for it again, or try later.
_AS_COORDINATOR: Final = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
}


class GroupShard:
    def __init__(
        self,
        partition: Partition,
        limits: GroupLimits,
        now_ms: Callable[[], int],
        existing_topics: Callable[[], Container[str]],
    ) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.core = Shard(limits)
        self._now_ms = now_ms
        self._existing_topics = existing_topics
        self._is_loading = True
        self._is_resigned = False
        self._deleted_topics: set[str] = set()
        self._tokens = 0
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._writes: deque[Write] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._deadlines: Deadlines[Group] = Deadlines(now_ms, self._expire)

    def is_current(self, partition: Partition | None) -> bool:
        return (
            not self._is_resigned
            and partition is self.partition
            and partition.is_leader
            and partition.leader_epoch == self.leader_epoch
        )

    def check_ready(self) -> None:
        if self._is_resigned:
            raise ApiError(ErrorCode.not_coordinator)
        if self._is_loading:
            raise ApiError(ErrorCode.coordinator_load_in_progress)

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
        await partition.settle()
        offset, end_offset = partition.log_start_offset, partition.log.log_end_offset
        while offset < end_offset and not self._is_resigned:
            offset = self._load_some(offset, end_offset)
            await asyncio.sleep(0)
        await partition.committed(end_offset)
        if not self._is_resigned:
            self._finish_loading()
            log.info("loaded %d groups from %s-%d", len(self.core.groups), partition.topic, partition.index)

    def _finish_loading(self) -> None:
        self._is_loading = False
        self._carry_out(self.core.finish_loading(self._now_ms()))
        for group in self.core.groups.values():
            self._deadlines.set(group, group.next_deadline())
        # Topics may also have been deleted shortly before a crash that left no time to write it down here.
        existing = self._existing_topics()
        gone = {topic for topic in self.core.topics() if topic not in existing}
        self.forget_topics(gone | self._deleted_topics)

    def _load_some(self, offset: int, end_offset: int) -> int:
        size = 0
        for header, batch in self.partition.log.batches(offset, end_offset):
            if not header.is_control:
                self._replay(header.base_offset, decode_records(batch, header))
            size += header.size
            if size >= LOAD_BYTES_AT_ONCE:
                return header.next_offset
        return end_offset

    def _replay(self, base_offset: int, found: Iterable[Record]) -> None:
        try:
            for record in found:
                try:
                    self.core.replay(record.key or b"", record.value, self._now_ms())
                except RecordError as error:
                    self._report(f"record {record.offset}", error)
        except (RecordsError, CompressionError) as error:
            self._report(f"the batch at {base_offset}", error)

    def _report(self, what: str, error: Exception) -> None:
        log.error("%s-%d: left out %s: %s", self.partition.topic, self.partition.index, what, error)

    # Requests

    async def ask(self, group_id: str, request: Callable[[int, int], list[Effect]]) -> Reply:
        """Give the core a request, as a function of a token and the time, and wait for its answer."""
        self._tokens += 1
        token = self._tokens
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[token] = future
        try:
            self._carry_out(request(token, self._now_ms()))
            self._schedule(group_id)
            return await future
        finally:
            # Also when the client is gone: then the answer, when it comes, has nowhere to go.
            del self._waiting[token]

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        # Moves a deadline away at most, so nothing needs to be scheduled.
        return self.core.heartbeat(group_id, member_id, instance_id, generation_id, self._now_ms())

    def forget_topics(self, topics: Iterable[str]) -> None:
        names = frozenset(topics)
        if self._is_loading:
            self._deleted_topics |= names
        elif names and not self._is_resigned:
            self._carry_out(self.core.forget_topics(names))

    def expire_offsets(self) -> None:
        if not self._is_loading and not self._is_resigned:
            self._carry_out(self.core.expire_offsets(self._now_ms()))

    # Effects

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                future = self._waiting.get(effect.token)
                if future is not None and not future.done():
                    future.set_result(effect.reply)
            else:
                self._writes.append(effect)
        if self._writes and self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write_all())
            self._writer.add_done_callback(self._writer_ended)

    def _schedule(self, group_id: str) -> None:
        group = self.core.groups.get(group_id)
        if group is not None:
            self._deadlines.set(group, group.next_deadline())

    def _expire(self, group: Group) -> None:
        self._carry_out(self.core.expire(group, self._now_ms()))
        self._deadlines.set(group, group.next_deadline())

    async def _write_all(self) -> None:
        while self._writes:
            batch = self._take_writes()
            error = await self._append(batch)
            for write in batch:
                self._carry_out(self.core.written(write, error, self._now_ms()))
                self._deadlines.set(write.group, write.group.next_deadline())

    def _take_writes(self) -> list[Write]:
        batch = [self._writes.popleft()]
        count = len(batch[0].records)
        while self._writes and count + len(self._writes[0].records) <= WRITE_RECORDS_MAX:
            batch.append(self._writes.popleft())
            count += len(batch[-1].records)
        return batch

    async def _append(self, batch: Sequence[Write]) -> ErrorCode:
        now_ms = self._now_ms()
        records = [Record(0, now_ms, key, value) for write in batch for key, value in write.records]
        try:
            if self._is_resigned or self.partition.leader_epoch != self.leader_epoch:
                raise ApiError(ErrorCode.not_coordinator)
            await self.partition.append_records(records)
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
        elif self._writes and not self._is_resigned:
            self._carry_out(())

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
        self._is_resigned = True
        self._deadlines.close()
        self._writes.clear()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ApiError(ErrorCode.not_coordinator))
