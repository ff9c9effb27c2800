"""A coordinator of this broker: finds the shard of a key and hands requests over.

What a coordinator knows of a key (a group, a transactional id) lives in the partition of its internal topic
that the key hashes to, and the broker that leads the partition coordinates the key. The topic is created when
a client first looks for a coordinator. Failures that concern the coordinator, not the request, are raised as
ApiError.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from penstock.broker.coordinator_shard import CoordinatorShard
from penstock.groups.placement import partition_for
from penstock.storage.errors import StorageError
from penstock.types import ApiError, ErrorCode, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.broker.broker import Broker
    from penstock.broker.partition import Partition
    from penstock.metadata.image import BrokerImage, MetadataDelta

log = logging.getLogger(__name__)

Shard = TypeVar("Shard", bound=CoordinatorShard[Any, Any])

SEGMENT_BYTES: Final = 100 << 20
LOAD_S_MAX: Final = 10.0
"""How long who asks for all waits for those that are being loaded; one that is cut off loads for ever."""


class Coordinator(ABC, Generic[Shard]):
    topic: str
    """The internal topic."""

    def __init__(self, broker: Broker, partitions: int) -> None:
        self._broker = broker
        self._partitions_wanted = partitions
        self._shards: dict[int, Shard] = {}
        self._loads: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        self._clock_base_ms = 0.0

    @abstractmethod
    def new_shard(self, partition: Partition) -> Shard: ...

    async def start(self) -> None:
        # Sessions must not end because somebody set the clock: it is read once and counted on from there.
        loop = asyncio.get_running_loop()
        self._clock_base_ms = self._broker.now_ms() - loop.time() * 1000
        self._broker.controller.subscribe(self.metadata_changed)
        for index in range(self._partitions_count()):
            self._open(index)

    async def stop(self) -> None:
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

    async def coordinator(self, key: str) -> BrokerImage:
        """The broker that coordinates the key; the internal topic is created if it is missing.

        Raises ApiError while there is none, or while it is this one and cannot serve the key.
        """
        await self.ensure_topic()
        leader = self.maybe_leader(key)
        if leader is None:
            raise ApiError(ErrorCode.coordinator_not_available)
        if leader.id == self._broker.config.node_id:
            await self._broker.controller.publisher.settled()  # a new partition may not be open yet
            if self._open(self.partition_of(key).partition) is None:
                # Not NOT_COORDINATOR, which is no answer to this question: librdkafka would not ask again.
                raise ApiError(ErrorCode.coordinator_not_available)
        return leader

    async def ensure_topic(self) -> None:
        if self._partitions_count():
            return
        try:
            await self._broker.channel.ensure_internal_topic(
                self.topic, partitions=self._partitions_wanted, configs=topic_configs()
            )
        except ApiError as error:
            log.warning("cannot create %s: %s", self.topic, error)
            raise ApiError(ErrorCode.coordinator_not_available, error.message) from error

    def partition_of(self, key: str) -> TopicPartition:
        """Where what is known of the key lives. Raises ApiError while there is no such topic."""
        count = self._partitions_count()
        if not count:
            raise ApiError(ErrorCode.coordinator_not_available)
        return TopicPartition(self.topic, partition_for(key, count))

    def maybe_leader(self, key: str) -> BrokerImage | None:
        """Who coordinates the key as far as is known here; None while nobody does."""
        image = self._broker.controller.image
        count = self._partitions_count()
        if not count:
            return None
        partition = image.topics[self.topic].partitions[partition_for(key, count)]
        leader = image.brokers.get(partition.leader)
        return None if leader is None or leader.fenced else leader

    def _partitions_count(self) -> int:
        topic = self._broker.controller.image.topics.get(self.topic)
        return 0 if topic is None else len(topic.partitions)

    def shard(self, key: str) -> Shard:
        shard = self._current_shard(key)
        if shard.is_loading and not self._broker.lifecycle.has_lease:
            # Cut off from the others it never gets to the end of it, and they have a coordinator that does.
            raise ApiError(ErrorCode.not_coordinator)
        shard.check_ready()
        return shard

    def _current_shard(self, key: str) -> Shard:
        shard = self._open(self.partition_of(key).partition)
        if shard is None:
            raise ApiError(ErrorCode.not_coordinator)
        return shard

    def maybe_shard(self, index: int) -> Shard | None:
        """The shard of a partition, if this broker leads it; it may be loading."""
        return self._open(index)

    def _open(self, index: int) -> Shard | None:
        """The shard of a partition for its current leader epoch; a new one begins to load."""
        partition = self._broker.partitions.get(self.topic, index)
        shard = self._shards.get(index)
        if shard is not None:
            if shard.is_current(partition):
                return shard
            shard.resign()
            del self._shards[index]
        if partition is None or not partition.is_leader or self._is_stopping:
            return None
        shard = self._shards[index] = self.new_shard(partition)
        if not shard.begin():
            task = asyncio.get_running_loop().create_task(_load(shard))
            self._loads.add(task)
            task.add_done_callback(self._loads.discard)
        return shard

    # Whether this broker still coordinates a key, for answers from memory

    def is_proven(self, key: str) -> bool:
        """Whether nobody else can coordinate the key now, as far as that is known without asking.

        True also where the answer is an error anyway.
        """
        try:
            shard = self.shard(key)
        except ApiError:
            return True
        topic = self._broker.controller.image.topics.get(self.topic)
        known = None if topic is None else topic.partitions.get(shard.partition.index)
        is_led_here = known is not None and known.leader_epoch == shard.leader_epoch
        return is_led_here and self._broker.lifecycle.has_lease

    async def prove(self, key: str) -> None:
        """It is certain that nobody else coordinated the key when this was called. Raises ApiError."""
        if not self.is_proven(key):
            await self.shard(key).confirm()

    # All shards

    async def load_all(self) -> None:
        """Wait a while until every shard has been read: a list of all is whole or wrong."""
        for index in range(self._partitions_count()):
            self._open(index)
        if self._loads:
            await asyncio.wait(self._loads, timeout=LOAD_S_MAX)

    def open_shards(self) -> list[Shard]:
        return list(self._shards.values())

    def ready_shards(self) -> list[Shard]:
        shards = [shard for index in range(self._partitions_count()) if (shard := self._open(index))]
        for shard in shards:
            shard.check_ready()
        return shards

    def metadata_changed(self, delta: MetadataDelta) -> None:
        if self.topic in delta.created or self.topic in delta.changed:
            for index in range(self._partitions_count()):
                self._open(index)  # resign what others lead now, begin to load what came to us


def topic_configs() -> Mapping[str, str]:
    return {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": str(SEGMENT_BYTES)}


async def _load(shard: CoordinatorShard[Any, Any]) -> None:
    try:
        await shard.load()
    except Exception as error:  # whatever it is: a shard that loads for ever helps nobody
        where = f"{shard.partition.topic}-{shard.partition.index}"
        is_expected = isinstance(error, StorageError | ApiError)
        log.error("cannot load %s: %s", where, error, exc_info=not is_expected)
        shard.resign()  # the next request tries again
