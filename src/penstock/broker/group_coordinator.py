"""The group coordinator of this broker: finds the shard of a group and hands the request over.

The records of a group live in the partition of `__consumer_offsets` that its id hashes to, and the broker
that leads the partition coordinates the group. The topic is created when a client first looks for a
coordinator. Failures that concern the coordinator, not the request, are raised as ApiError.
"""

from __future__ import annotations

import asyncio
import logging
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.broker.group_shard import GroupShard
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
from penstock.groups.placement import partition_for
from penstock.storage.errors import StorageError
from penstock.types import ApiError, ErrorCode, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.broker.broker import Broker
    from penstock.groups.group import Group
    from penstock.metadata.image import BrokerImage, MetadataDelta

log = logging.getLogger(__name__)

OFFSETS_TOPIC: Final = "__consumer_offsets"
OFFSETS_TOPIC_CONFIGS: Final = MappingProxyType(
    {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": str(100 << 20)}
)

SomeReply = TypeVar("SomeReply", bound=Reply)


class GroupCoordinator:
    def __init__(self, broker: Broker) -> None:
        self.limits = broker.config.groups
        self._broker = broker
        self._shards: dict[int, GroupShard] = {}
        self._loads: set[asyncio.Task[None]] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._is_stopping = False
        self._clock_base_ms = 0.0

    async def start(self) -> None:
        # Sessions must not end because somebody set the clock: it is read once and counted on from there.
        loop = asyncio.get_running_loop()
        self._clock_base_ms = self._broker.now_ms() - loop.time() * 1000
        self._broker.controller.subscribe(self._metadata_changed)
        for index in range(self._partitions_count()):
            self._open(index)
        self._schedule_sweep()

    async def stop(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        self._is_stopping = True  # the metadata may go on changing, and open nothing any more
        for load in self._loads:
            load.cancel()  # it may wait for a commit that needs others
        await asyncio.gather(*(shard.close() for shard in self._shards.values()))
        self._shards.clear()
        if self._loads:
            await asyncio.wait(self._loads)

    def now_ms(self) -> int:
        """The time of day when the coordinator started, plus the time that has passed since."""
        return int(self._clock_base_ms + asyncio.get_running_loop().time() * 1000)

    # Shards

    async def coordinator(self, group_id: str) -> BrokerImage:
        """The broker that coordinates the group; the offsets topic is created if it is missing.

        Raises ApiError while there is none, or while it is this one and cannot serve the group.
        """
        if not self._partitions_count():
            try:
                await self._broker.channel.ensure_internal_topic(
                    OFFSETS_TOPIC,
                    partitions=self._broker.config.offsets_topic_partitions,
                    configs=OFFSETS_TOPIC_CONFIGS,
                )
            except ApiError as error:
                log.warning("cannot create %s: %s", OFFSETS_TOPIC, error)
                raise ApiError(ErrorCode.coordinator_not_available, error.message) from error
        image = self._broker.controller.image
        partitions = image.topics[OFFSETS_TOPIC].partitions
        leader = image.brokers.get(partitions[partition_for(group_id, len(partitions))].leader)
        if leader is None or leader.fenced:
            raise ApiError(ErrorCode.coordinator_not_available)
        if leader.id == self._broker.config.node_id:
            await self._broker.controller.publisher.settled()  # a new partition may not be open yet
            self._current_shard(group_id)
        return leader

    def _partitions_count(self) -> int:
        topic = self._broker.controller.image.topics.get(OFFSETS_TOPIC)
        return 0 if topic is None else len(topic.partitions)

    def _shard(self, group_id: str) -> GroupShard:
        shard = self._current_shard(group_id)
        shard.check_ready()
        return shard

    def _current_shard(self, group_id: str) -> GroupShard:
        count = self._partitions_count()
        if not count:
            raise ApiError(ErrorCode.coordinator_not_available)
        shard = self._open(partition_for(group_id, count))
        if shard is None:
            raise ApiError(ErrorCode.not_coordinator)
        return shard

    def _open(self, index: int) -> GroupShard | None:
        """The shard of a partition for its current leader epoch; a new one begins to load."""
        partition = self._broker.partitions.get(OFFSETS_TOPIC, index)
        shard = self._shards.get(index)
        if shard is not None:
            if shard.is_current(partition):
                return shard
            shard.resign()
            del self._shards[index]
        if partition is None or not partition.is_leader or self._is_stopping:
            return None
        shard = self._shards[index] = GroupShard(
            partition, self.limits, self.now_ms, lambda: self._broker.controller.image.topics
        )
        if not shard.begin():
            task = asyncio.get_running_loop().create_task(_load(shard))
            self._loads.add(task)
            task.add_done_callback(self._loads.discard)
        return shard

    async def load_all(self) -> None:
        """Wait until every shard of this broker has been read: a list of groups is whole or wrong."""
        for index in range(self._partitions_count()):
            self._open(index)
        if self._loads:
            await asyncio.wait(self._loads)

    def _ready_shards(self) -> list[GroupShard]:
        shards = [shard for index in range(self._partitions_count()) if (shard := self._open(index))]
        for shard in shards:
            shard.check_ready()
        return shards

    def _metadata_changed(self, delta: MetadataDelta) -> None:
        for shard in self._shards.values():
            shard.forget_topics(delta.deleted)
        if OFFSETS_TOPIC in delta.created or OFFSETS_TOPIC in delta.changed:
            for index in range(self._partitions_count()):
                self._open(index)  # resign what others lead now, begin to load what came to us

    def _schedule_sweep(self) -> None:
        interval_s = self.limits.offsets_retention_check_interval_ms / 1000
        self._sweep = asyncio.get_running_loop().call_later(interval_s, self._expire_offsets)

    def _expire_offsets(self) -> None:
        for shard in self._shards.values():
            shard.expire_offsets()
        self._schedule_sweep()

    # Requests

    async def join(self, group_id: str, request: JoinRequest) -> JoinReply:
        shard = self._shard(group_id)
        reply = await shard.ask(
            group_id, lambda token, now_ms: shard.core.join(group_id, token, request, now_ms)
        )
        return _expect(JoinReply, reply)

    async def sync(self, group_id: str, request: SyncRequest) -> SyncReply:
        shard = self._shard(group_id)
        reply = await shard.ask(
            group_id, lambda token, now_ms: shard.core.sync(group_id, token, request, now_ms)
        )
        return _expect(SyncReply, reply)

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        return self._shard(group_id).heartbeat(group_id, member_id, group_instance_id, generation_id)

    async def leave(self, group_id: str, members: Sequence[LeavingMember]) -> LeaveReply:
        shard = self._shard(group_id)
        reply = await shard.ask(
            group_id, lambda token, now_ms: shard.core.leave(group_id, token, members, now_ms)
        )
        return _expect(LeaveReply, reply)

    async def commit(self, group_id: str, request: CommitRequest) -> OffsetsReply:
        shard = self._shard(group_id)
        reply = await shard.ask(
            group_id, lambda token, now_ms: shard.core.commit(group_id, token, request, now_ms)
        )
        return _expect(OffsetsReply, reply)

    async def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> OffsetsReply:
        shard = self._shard(group_id)
        reply = await shard.ask(
            group_id, lambda token, _: shard.core.delete_offsets(group_id, token, partitions)
        )
        return _expect(OffsetsReply, reply)

    async def delete_group(self, group_id: str) -> ErrorCode:
        shard = self._shard(group_id)
        reply = await shard.ask(group_id, lambda token, _: shard.core.delete_group(group_id, token))
        return _expect(DeleteReply, reply).error

    # Views

    def maybe_group(self, group_id: str) -> Group | None:
        """The group, to be looked at and not changed."""
        return self._shard(group_id).core.groups.get(group_id)

    def groups(self) -> list[Group]:
        return [group for shard in self._ready_shards() for group in shard.core.groups.values()]


async def _load(shard: GroupShard) -> None:
    try:
        await shard.load()
    except Exception as error:  # whatever it is: a shard that loads for ever helps nobody
        where = f"{shard.partition.topic}-{shard.partition.index}"
        is_expected = isinstance(error, StorageError | ApiError)
        log.error("cannot load consumer groups from %s: %s", where, error, exc_info=not is_expected)
        shard.resign()  # the next request tries again


def _expect(kind: type[SomeReply], reply: Reply) -> SomeReply:
    assert isinstance(reply, kind), f"{type(reply)} is not the answer to this request"
    return reply
