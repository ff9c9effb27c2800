"""The partitions on this node: opened, reconfigured and deleted as the metadata says.

Each fails alone. One whose log cannot be opened or written, or whose disk does not answer, is out of service,
and no other is. The controller is told, and lets another replica lead if one is in sync. Then the log is
opened again now and then, for a disk that was full, or a process that had too many files open, may have room
again. What was not flushed when the log failed is cut: after a sync that failed, that bytes can be read does
not say that they are on disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from penstock.broker.log_opening import LogOpener
from penstock.broker.partition import Partition
from penstock.broker.refused_batches import RefusedBatches
from penstock.metadata.leadership import damage_id, replica_id
from penstock.storage import Flush, LogConfig, PartitionLog, StorageError
from penstock.storage.config import NO_LIMIT
from penstock.types import ApiError, ErrorCode, TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from penstock.broker.broker import Broker
    from penstock.metadata.configs import TopicConfig
    from penstock.metadata.image import MetadataDelta, MetadataImage, PartitionImage, TopicImage

log = logging.getLogger(__name__)

FILE_THREADS: Final = 8
"""For opening and closing many logs at once."""
DRAIN_S_MAX: Final = 5.0
"""For what is on its way to the disk, before others stop waiting for it."""
OPEN_AGAIN_S_MIN: Final = 5.0
OPEN_AGAIN_S_MAX: Final = 60.0
"""Between two attempts to open a log; each that did not last makes it twice as long."""


def log_config(config: TopicConfig) -> LogConfig:
    return LogConfig(
        segment_bytes=config.segment_bytes,
        segment_ms=config.segment_ms,
        # What consumed retention removes is for the leader to say; followers learn of it by its log start.
        retention_ms=NO_LIMIT if config.is_consumed else config.retention_ms,
        retention_bytes=NO_LIMIT if config.is_consumed else config.retention_bytes,
        delete=config.delete,
        compact=config.compact,
        delete_retention_ms=config.delete_retention_ms,
        min_compaction_lag_ms=config.min_compaction_lag_ms,
        max_compaction_lag_ms=config.max_compaction_lag_ms,
        min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
        index_interval_bytes=config.index_interval_bytes,
        flush=Flush.COMMIT if config.flush == "commit" else Flush.OS,
    )


class Partitions:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._storage = broker.storage
        self._opener = LogOpener(broker.storage, broker.lost_replicas, broker.damaged_logs)
        self._node_id = broker.config.node_id
        self._partitions: dict[tuple[str, int], Partition] = {}
        self.refused = RefusedBatches()
        self.failed: dict[TopicPartition, StorageError] = {}
        """Those whose logs could not be opened, and why."""
        self.offline: frozenset[UUID] = frozenset()
        """The replicas out of service, by `replica_id` and `damage_id`, as told to the controller."""
        self._is_look_due = False
        self._cut_at: dict[TopicPartition, int] = {}
        """Where the logs end, if opened again, that could not be written."""
        self._opened_again: dict[TopicPartition, tuple[float, float]] = {}
        """When a log may be closed and opened another time, and how long the pause after that is."""
        self._endings: set[asyncio.Task[None]] = set()
        self._one_at_a_time = asyncio.Lock()
        self._live: frozenset[int] = frozenset()
        """Brokers that the metadata takes for alive."""
        self._is_closed = False

    def get(self, topic: str, index: int) -> Partition | None:
        return self._partitions.get((topic, index))

    def require(self, topic: str, index: int) -> Partition:
        partition = self.get(topic, index)
        if partition is None:
            failure = self.failed.get(TopicPartition(topic, index))
            if failure is not None:
                raise ApiError(ErrorCode.kafka_storage_error, str(failure))
            known = self._broker.controller.image.topics.get(topic)
            if known is not None and index in known.partitions:
                raise ApiError(ErrorCode.not_leader_or_follower)  # another broker's, or not open yet
            if not self._broker.lifecycle.has_served:
                # A node that is new, or has lost its disk, does not know all topics yet: ask another one.
                raise ApiError(ErrorCode.not_leader_or_follower)
            raise ApiError(ErrorCode.unknown_topic_or_partition)
        return partition

    def __iter__(self) -> Iterator[Partition]:
        return iter(tuple(self._partitions.values()))

    def __len__(self) -> int:
        return len(self._partitions)

    async def open_all(self, image: MetadataImage) -> None:
        """At start: open what the metadata names, remove folders of topics whose end was read.

        Of a folder whose topic the metadata do not know and never ended, nobody can say that it may go: it is
        set aside. What cannot be opened is out of service, as it would be later, and holds up nothing else.
        """
        removed = self._broker.controller.publisher.removed
        for name, topic_id in self._storage.logs():
            if topic_id in image.topic_names or name.startswith("__cluster_metadata-"):
                continue
            if topic_id in removed:
                log.info("removing %s: its topic was deleted", name)
                self._storage.delete_log(name)
            else:
                aside = self._storage.set_aside(name)
                log.warning("the metadata know no topic %s of %s: it was moved to %s", topic_id, name, aside)
        self._live = frozenset(broker.id for broker in image.live_brokers())
        for topic in image.topics.values():
            await self._open_topic(topic)
        lost_replicas = self._broker.lost_replicas
        for where, failure in self.failed.items():
            partition_image = image.topics[where.topic].partitions[where.partition]
            lost_replicas.cannot_open(str(where), partition_image, str(failure))
        for partition in self:
            lost_replicas.examine(partition.log, partition.image)
        self._roles_changed()
        self.look()

    async def apply(self, delta: MetadataDelta) -> None:
        """StorageError if something could not be opened; all else is carried out."""
        async with self._one_at_a_time:
            failed_before = dict(self.failed)
            await self._apply(delta)
            self.look()
            for where, failure in self.failed.items():
                if where not in failed_before:
                    raise failure

    def look_soon(self) -> None:
        """Once for all logs that fail together, as on a full disk."""
        if not self._is_look_due:
            self._is_look_due = True
            asyncio.get_running_loop().call_soon(self.look)

    def look(self) -> None:
        """See what is out of service, and tell the controller if that has changed."""
        self._is_look_due = False
        topics = self._broker.controller.image.topics
        failed = {
            (topics[where.topic].topic_id, where.partition): str(where)
            for where in self.failed
            if where.topic in topics
        }
        for partition in self:
            flushing_ms = partition.flushing_ms()
            if flushing_ms > self._broker.config.cluster.flush_ms_max and partition.log.error is None:
                self._broker.writers.replace_one()
                partition.give_up(f"a flush of {partition.log.name} has not ended for {flushing_ms} ms")
            if partition.log.error is not None:
                failed[partition.topic_id, partition.index] = partition.log.name
        offline = {replica_id(*where) for where in failed}
        for (topic_id, index), name in failed.items():
            if self._broker.damaged_logs.maybe_reason(name, topic_id) is not None:
                offline.add(damage_id(topic_id, index))
        if offline != self.offline:
            self.offline = frozenset(offline)
            self._broker.lifecycle.tell_soon()

    async def open_failed(self) -> None:
        """Try again what could not be opened, or not be written."""
        async with self._one_at_a_time:
            if self._is_closed:
                return
            await self._close_failed()
            topics = self._broker.controller.image.topics
            for name in {where.topic for where in self.failed}:
                if name in topics and not self._is_closed:
                    await self._open_topic(topics[name])
            self._roles_changed()
        self.look()

    async def _close_failed(self) -> None:
        """Close the logs of followers that cannot be written, to open them again.

        Not before the controller knows: by the leader epoch that it has begun then, nothing counts any more
        of what the leader was told of this replica.
        """
        for partition in self:
            where = TopicPartition(partition.topic, partition.index)
            if (
                partition.log.error is None
                or partition.is_leader
                or partition.is_busy
                or self._node_id not in partition.image.offline
                or not self._may_open_again(where)
            ):
                continue
            self.failed[where] = StorageError(str(partition.log.error))
            self._cut_at[where] = partition.log.flushed_end_offset
            del self._partitions[where]
            await partition.drain()
            try:
                await asyncio.get_running_loop().run_in_executor(None, partition.log.close)
            except StorageError as error:
                log.error("cannot close a log: %s", error)

    def _may_open_again(self, where: TopicPartition) -> bool:
        now_s = asyncio.get_running_loop().time()
        not_before_s, pause_s = self._opened_again.get(where, (0.0, OPEN_AGAIN_S_MIN))
        if now_s < not_before_s:
            return False
        if now_s - not_before_s > OPEN_AGAIN_S_MAX:  # the last time was long ago
            pause_s = OPEN_AGAIN_S_MIN
        self._opened_again[where] = (now_s + pause_s, min(2 * pause_s, OPEN_AGAIN_S_MAX))
        return True

    async def _apply(self, delta: MetadataDelta) -> None:
        if self._is_closed:
            return
        for topic in delta.deleted.values():
            await asyncio.gather(
                *(self._delete(TopicPartition(topic.name, index)) for index in topic.partitions)
            )
        self._live = frozenset(broker.id for broker in self._broker.controller.image.live_brokers())
        if delta.brokers:
            for partition in self:
                partition.brokers_changed(self._live)
        for topic in (*delta.created.values(), *delta.changed.values()):
            await self._open_topic(topic)
        self._roles_changed()
        for name in {resource.name for resource in delta.configs}:
            self._reconfigure(name)

    def _roles_changed(self) -> None:
        self._broker.fetchers.assign(self)

    async def close(self) -> None:
        self._is_closed = True  # the metadata may go on changing; it is for the next start
        if len(self):
            drains = [asyncio.ensure_future(partition.drain()) for partition in self]
            await asyncio.wait(drains, timeout=DRAIN_S_MAX)
        # Each waits for the disk a few times; together they wait hardly longer than one.
        with ThreadPoolExecutor(FILE_THREADS) as threads:
            loop = asyncio.get_running_loop()
            closing = [
                loop.run_in_executor(threads, partition.log.close)
                for partition in self
                if not partition.is_busy  # its disk hangs: the next start finds it as after a crash
            ]
            for outcome in await asyncio.gather(*closing, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    log.error("cannot close a log: %s", outcome)
        self._partitions.clear()

    async def _open_topic(self, topic: TopicImage) -> None:
        config = self._broker.controller.topic_config(topic.name)
        missing: list[tuple[TopicPartition, PartitionImage]] = []
        for index, image in topic.partitions.items():
            partition = self.get(topic.name, index)
            if self._node_id not in image.replicas:
                if partition is not None or TopicPartition(topic.name, index) in self.failed:
                    log.info("%s-%d is on other brokers now", topic.name, index)
                    await self._delete(TopicPartition(topic.name, index))
            elif partition is None:
                missing.append((TopicPartition(topic.name, index), image))
            else:
                partition.apply(image, self._live)
        if not missing:
            return
        # Creating files waits for the disk.
        logs = await asyncio.get_running_loop().run_in_executor(
            None, self._open_logs, missing, topic, log_config(config)
        )
        for (topic_partition, image), opened in zip(missing, logs, strict=True):
            if isinstance(opened, StorageError):
                if str(opened) != str(
                    self.failed.get(topic_partition)
                ):  # it is tried again every few seconds
                    log.error("%s is out of service here: %s", topic_partition, opened)
                self.failed[topic_partition] = opened
            elif opened is not None and self._is_closed:
                opened.close()
            elif opened is not None:
                self.failed.pop(topic_partition, None)
                self._cut_at.pop(topic_partition, None)
                self._add(topic_partition, topic, image, opened, config)

    def _open_logs(
        self, partitions: list[tuple[TopicPartition, PartitionImage]], topic: TopicImage, config: LogConfig
    ) -> list[PartitionLog | StorageError | None]:
        """None for one that must not be opened yet: see log_opening.py."""
        now_ms = self._broker.now_ms()

        def open_log(each: tuple[TopicPartition, PartitionImage]) -> PartitionLog | StorageError | None:
            opened = self._opener.open(str(each[0]), topic.topic_id, each[1], config, now_ms)
            cut_at = self._cut_at.get(each[0])
            if cut_at is not None and isinstance(opened, PartitionLog):
                try:
                    opened.truncate_to(cut_at)
                except StorageError as error:
                    opened.close()
                    return error
            return opened

        with ThreadPoolExecutor(FILE_THREADS) as threads:
            return list(threads.map(open_log, partitions))

    def _add(
        self,
        topic_partition: TopicPartition,
        topic: TopicImage,
        image: PartitionImage,
        opened: PartitionLog,
        config: TopicConfig,
    ) -> None:
        for line in opened.recovery:
            log.warning("recovery of %s: %s", topic_partition, line)
        self._partitions[topic_partition] = Partition(
            topic_partition,
            topic.topic_id,
            opened,
            image,
            config,
            self._live,
            self._broker.surroundings,
        )

    async def _delete(self, topic_partition: TopicPartition) -> None:
        self.failed.pop(topic_partition, None)
        self._cut_at.pop(topic_partition, None)
        self._opened_again.pop(topic_partition, None)
        partition = self._partitions.pop(topic_partition, None)
        if partition is None:
            return
        ending = asyncio.ensure_future(self._end(topic_partition, partition))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        _, waiting = await asyncio.wait([ending], timeout=DRAIN_S_MAX)
        if waiting:
            log.error("%s: its disk does not answer; its folder is removed when it does", topic_partition)

    async def _end(self, topic_partition: TopicPartition, partition: Partition) -> None:
        await partition.drain()
        try:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, self._storage.delete_log, str(topic_partition))
        except StorageError as error:
            # The topic is gone from the metadata; the next start tries the folder again.
            log.error("cannot remove the log of %s: %s", topic_partition, error)

    def _reconfigure(self, topic: str) -> None:
        config = self._broker.controller.topic_config(topic)
        for partition in self:
            if partition.topic == topic:
                partition.reconfigure(config)
                partition.log.reconfigure(log_config(config))
