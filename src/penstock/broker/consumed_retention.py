"""Rounds of consumed retention over the partitions that this broker leads: see replication/consumed.py."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.subscription_positions import PositionsUnknownError, all_positions
from penstock.metadata.internal_topics import is_internal
from penstock.replication.consumed import ConsumedPartition, Removal, readers_of
from penstock.storage import StorageError
from penstock.types import ApiError, TopicPartition

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.partition import Partition
    from penstock.groups.positions import Positions
    from penstock.replication.leader import PartitionLeader

log = logging.getLogger(__name__)


class _Watched(NamedTuple):
    partition: Partition
    leader: PartitionLeader
    """Of one leader epoch."""
    core: ConsumedPartition

    @property
    def name(self) -> str:
        return f"{self.partition.topic}-{self.partition.index}"

    @property
    def is_current(self) -> bool:
        return self.partition.leader is self.leader and self.partition.config.is_consumed


class ConsumedRetention:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._watched: dict[TopicPartition, _Watched] = {}

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._broker.config.retention_check_ms / 1000)
            try:
                await self.round()
            except Exception:  # whatever it was, the next round begins with nothing of it
                log.exception("consumed retention")

    async def round(self) -> None:
        self._look()
        wanted = [each for each in self._watched.values() if self._begin(each)]
        if not wanted:
            return
        try:
            positions = await all_positions(self._broker, {each.partition.topic for each in wanted})
        except PositionsUnknownError as error:
            log.info("consumed retention: nothing is removed for now, %s", error)
            return
        for each in wanted:
            try:
                self._remove(each, positions)
            except (ApiError, StorageError) as error:
                log.error("consumed retention of %s: %s", each.name, error)
            await asyncio.sleep(0)  # a thousand partitions must not hold up the loop

    def _look(self) -> None:
        """Which partitions are led here, with what is known of each in its leader epoch."""
        before, self._watched = self._watched, {}
        for partition in self._broker.partitions:
            leader = partition.leader
            if leader is None or not partition.config.is_consumed or is_internal(partition.topic):
                continue
            where = TopicPartition(partition.topic, partition.index)
            known = before.get(where)
            if known is None or known.leader is not leader:
                known = _Watched(partition, leader, ConsumedPartition())
            self._watched[where] = known

    def _begin(self, each: _Watched) -> bool:
        """Whether there is anything that this round might remove."""
        limit = each.core.begin_round(each.partition.last_stable_offset)
        return each.partition.log_start_offset < limit

    def _remove(self, each: _Watched, positions: Positions) -> None:
        partition = each.partition
        if not each.is_current:
            return  # another epoch has begun meanwhile, or another policy
        config = partition.config
        readers = readers_of(positions.get(partition.topic, {}), partition.index, partition.high_watermark)
        removal = each.core.decide(
            readers,
            now_ms=self._broker.monotonic_ms(),
            grace_ms=config.retention_consumed_grace_ms,
            ceiling=self._ceiling(partition),
        )
        start = partition.log_start_offset
        if removal.before > start:
            partition.move_log_start(removal.before)
            self._report(each.name, removal, start)

    def _ceiling(self, partition: Partition) -> int:
        config = partition.config
        return partition.log.start_within(
            retention_ms=config.retention_consumed_ms,
            retention_bytes=config.retention_consumed_bytes,
            now_ms=self._broker.now_ms(),
            high_watermark=partition.last_stable_offset,
        )

    def _report(self, name: str, removal: Removal, start: int) -> None:
        metrics, end = self._broker.metrics, removal.before
        metrics.consumed_removed += end - start
        log.info("retention: %s: removed offsets %d to %d, %s", name, start, end - 1, removal.reason)
        for group, position in removal.lost.items():
            first = max(position, start)
            metrics.consumed_lost += end - first
            log.warning(
                "retention: %s: subscription %s had not got offsets %d to %d, which were %s",
                name, group, first, end - 1, removal.reason,
            )  # fmt: skip
