"""The groups of one partition of `__consumer_offsets`, on the event loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock.broker.coordinator_shard import CoordinatorShard, KeyValue, records_at
from penstock.broker.deadlines import Deadlines
from penstock.groups.messages import (
    Answer,
    Effect,
    MarkerReply,
    Producer,
    Reply,
    Write,
    WriteMarker,
)
from penstock.groups.records import CONFIRMATION
from penstock.groups.shard import Shard
from penstock.types import ApiError, ErrorCode
from penstock.wire.batch import TRANSACTIONAL
from penstock.wire.control import Marker, encode_marker, maybe_marker
from penstock.wire.records import encode_batch

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from penstock.broker.partition import Partition
    from penstock.groups.group import Group
    from penstock.groups.limits import GroupLimits
    from penstock.wire.batch import BatchHeader
    from penstock.wire.records import Record


AnyWrite = Write | WriteMarker


class GroupShard(CoordinatorShard[AnyWrite, Reply]):
    confirmation = CONFIRMATION

    def __init__(
        self,
        partition: Partition,
        limits: GroupLimits,
        now_ms: Callable[[], int],
        existing_topics: Callable[[], Container[str]],
    ) -> None:
        super().__init__(partition, now_ms)
        self.core = Shard(limits)
        self._existing_topics = existing_topics
        self._deleted_topics: set[str] = set()
        self._deadlines: Deadlines[Group] = Deadlines(now_ms, self._expire)

    # Loading

    def replay(self, record: Record, header: BatchHeader) -> None:
        producer_id = header.producer_id if header.is_transactional else None
        self.core.replay(record.key or b"", record.value, self.now_ms(), producer_id)

    def replay_control(self, batch: memoryview, header: BatchHeader) -> None:
        marker = maybe_marker(batch, header)
        if marker is not None:
            self.core.transaction_ended(header.producer_id, is_commit=marker.is_commit)

    def loaded(self) -> str:
        self._carry_out(self.core.finish_loading(self.now_ms()))
        for group in self.core.groups.values():
            self._deadlines.set(group, group.next_deadline())
        # Topics may also have been deleted shortly before a crash that left no time to write it down here.
        existing = self._existing_topics()
        gone = {topic for topic in self.core.topics() if topic not in existing}
        self.forget_topics(gone | self._deleted_topics)
        return f"{len(self.core.groups)} groups"

    # Requests

    async def request(self, group_id: str, request: Callable[[int, int], list[Effect]]) -> Reply:
        """Give the core a request, as a function of a token and the time, and wait for its answer."""

        def ask(token: int) -> None:
            self._carry_out(request(token, self.now_ms()))
            group = self.core.groups.get(group_id)
            if group is not None:
                self._deadlines.set(group, group.next_deadline())

        return await self.ask(ask)

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        # Moves a deadline away at most, so nothing needs to be scheduled.
        return self.core.heartbeat(group_id, member_id, instance_id, generation_id, self.now_ms())

    def forget_topics(self, topics: Iterable[str]) -> None:
        names = frozenset(topics)
        if self.is_loading:
            self._deleted_topics |= names
        elif names and not self.is_resigned:
            self._carry_out(self.core.forget_topics(names))

    def expire_offsets(self) -> None:
        if not self.is_loading and not self.is_resigned:
            self._carry_out(self.core.expire_offsets(self.now_ms()))

    async def end_transaction(self, producer: Producer, marker: Marker) -> None:
        """Write the marker of a transaction that committed offsets here. Raises ApiError."""
        self.check_ready()
        reply = await self.ask(lambda token: self.write(WriteMarker(token, producer, *marker)))
        assert isinstance(reply, MarkerReply)
        if reply.error is not ErrorCode.none:
            raise ApiError(reply.error)

    # Effects

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                self.answer(effect.token, effect.reply)
            else:
                self.write(effect)

    def records_of(self, write: AnyWrite) -> Sequence[KeyValue]:
        return () if isinstance(write, WriteMarker) else write.records

    def own_batch(self, write: AnyWrite) -> bytes | None:
        if isinstance(write, WriteMarker):
            marker = Marker(write.is_commit, write.coordinator_epoch)
            return encode_marker(marker, *write.producer, self.now_ms())
        if write.producer is None:
            return None
        return encode_batch(
            records_at(write.records, self.now_ms()),
            attributes=TRANSACTIONAL,
            producer_id=write.producer.id,
            producer_epoch=write.producer.epoch,
        )

    def written(self, write: AnyWrite, error: ErrorCode) -> None:
        if isinstance(write, WriteMarker):
            if error is ErrorCode.none:
                self.core.transaction_ended(write.producer.id, is_commit=write.is_commit)
            self.answer(write.token, MarkerReply(error))
            return
        self._carry_out(self.core.written(write, error, self.now_ms()))
        self._deadlines.set(write.group, write.group.next_deadline())

    def _expire(self, group: Group) -> None:
        self._carry_out(self.core.expire(group, self.now_ms()))
        self._deadlines.set(group, group.next_deadline())

    def stop_timers(self) -> None:
        self._deadlines.close()
