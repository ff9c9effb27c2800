"""The group coordinator of this broker: consumer groups, on `__consumer_offsets`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.broker.coordinator import Coordinator
from penstock.broker.group_shard import GroupShard
from penstock.groups.marks import is_position
from penstock.groups.messages import (
    CommitRequest,
    DeleteReply,
    JoinReply,
    JoinRequest,
    LeaveReply,
    LeavingMember,
    OffsetsReply,
    Reply,
    SyncReply,
    SyncRequest,
)
from penstock.types import ApiError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.broker.broker import Broker
    from penstock.broker.partition import Partition
    from penstock.groups.group import Group
    from penstock.metadata.image import MetadataDelta
    from penstock.types import TopicPartition

OFFSETS_TOPIC: Final = "__consumer_offsets"

SomeReply = TypeVar("SomeReply", bound=Reply)


class GroupCoordinator(Coordinator[GroupShard]):
    topic = OFFSETS_TOPIC

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker, broker.config.offsets_topic_partitions)
        self.limits = broker.config.groups
        self._sweep: asyncio.TimerHandle | None = None

    def new_shard(self, partition: Partition) -> GroupShard:
        return GroupShard(partition, self.limits, self.now_ms, lambda: self._broker.controller.image.topics)

    async def start(self) -> None:
        await super().start()
        self._schedule_sweep()

    async def stop(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        await super().stop()

    def metadata_changed(self, delta: MetadataDelta) -> None:
        for shard in self.open_shards():
            shard.forget_topics(delta.deleted)
        super().metadata_changed(delta)

    def _schedule_sweep(self) -> None:
        interval_s = self.limits.offsets_retention_check_interval_ms / 1000
        self._sweep = asyncio.get_running_loop().call_later(interval_s, self._expire_offsets)

    def _expire_offsets(self) -> None:
        for shard in self.open_shards():
            shard.expire_offsets()
        self._schedule_sweep()

    # Requests

    async def join(self, group_id: str, request: JoinRequest) -> JoinReply:
        shard = self.shard(group_id)
        reply = await shard.request(
            group_id, lambda token, now_ms: shard.core.join(group_id, token, request, now_ms)
        )
        return _expect(JoinReply, reply)

    async def sync(self, group_id: str, request: SyncRequest) -> SyncReply:
        shard = self.shard(group_id)
        reply = await shard.request(
            group_id, lambda token, now_ms: shard.core.sync(group_id, token, request, now_ms)
        )
        return _expect(SyncReply, reply)

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        return self.shard(group_id).heartbeat(group_id, member_id, group_instance_id, generation_id)

    async def leave(self, group_id: str, members: Sequence[LeavingMember]) -> LeaveReply:
        shard = self.shard(group_id)
        reply = await shard.request(
            group_id, lambda token, now_ms: shard.core.leave(group_id, token, members, now_ms)
        )
        return _expect(LeaveReply, reply)

    async def commit(self, group_id: str, request: CommitRequest) -> OffsetsReply:
        shard = self.shard(group_id)
        for where, offset in request.offsets.items():
            if is_position(offset.metadata) and self._broker.controller.topic_config(where.topic).is_closed:
                # In a moment it is gone or open again: see unread_topics.py.
                raise ApiError(ErrorCode.coordinator_load_in_progress, f"topic {where.topic} is closed")
        reply = await shard.request(
            group_id, lambda token, now_ms: shard.core.commit(group_id, token, request, now_ms)
        )
        return _expect(OffsetsReply, reply)

    async def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> OffsetsReply:
        shard = self.shard(group_id)
        reply = await shard.request(
            group_id, lambda token, _: shard.core.delete_offsets(group_id, token, partitions)
        )
        return _expect(OffsetsReply, reply)

    async def delete_group(self, group_id: str) -> ErrorCode:
        shard = self.shard(group_id)
        reply = await shard.request(group_id, lambda token, _: shard.core.delete_group(group_id, token))
        return _expect(DeleteReply, reply).error

    # Views

    def maybe_group(self, group_id: str) -> Group | None:
        """The group, to be looked at and not changed."""
        return self.shard(group_id).core.groups.get(group_id)

    def groups(self) -> list[Group]:
        return [group for shard in self.ready_shards() for group in shard.core.groups.values()]


def _expect(kind: type[SomeReply], reply: Reply) -> SomeReply:
    assert isinstance(reply, kind), f"{type(reply)} is not the answer to this request"
    return reply
