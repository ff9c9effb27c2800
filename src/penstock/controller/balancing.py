"""The balancer at work, once a second on the active controller: metadata/balancing.py decides.

Heartbeats tell it how busy brokers are, so in its first seconds it knows nothing, and waits. A move is made
like any other change of the metadata, one at a time: if the controller dies, each is made or not made. What
takes longer is a reassignment or a borrowed replica, and the next controller finds it in the metadata.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.metadata.balancing import Balancer, BalancerLimits
from penstock.metadata.load import BrokerLoad, ClusterLoad, PartitionLoad
from penstock.metadata.moves import records_of
from penstock.types import ApiError

if TYPE_CHECKING:
    from penstock.config import ClusterLimits
    from penstock.metadata.image import MetadataImage
    from penstock.metadata.leadership import MinInsync
    from penstock.metadata.moves import Move
    from penstock.metadata.records import MetadataRecord
    from penstock.wire.broker_heartbeat import LoadData

log = logging.getLogger(__name__)

LOOK_S: Final = 1.0
ON: Final = "on"
OFF: Final = "off"

Change = Callable[[Callable[["MetadataImage"], tuple[Sequence["MetadataRecord"], bool]]], Awaitable[bool]]


class Balancing:
    def __init__(
        self,
        mode: str,
        limits: ClusterLimits,
        image: Callable[[], MetadataImage],
        change: Change,
        min_insync: MinInsync,
    ) -> None:
        self.mode = mode
        self.proposed: list[Move] = []
        """What it would do, or is about to do."""
        self.load = ClusterLoad()
        self._limits = BalancerLimits(
            grace_ms=limits.balancer_grace_ms,
            calm_ms=limits.balancer_calm_ms,
            window_ms=limits.balancer_window_ms,
            busy=limits.balancer_busy_percent / 100,
            room=limits.balancer_room_percent / 100,
            calm=limits.balancer_calm_percent / 100,
        )
        self._image = image
        self._change = change
        self._min_insync = min_insync
        self._balancer = Balancer(self._limits)
        self._one_at_a_time = asyncio.Lock()
        """What is decided is made, or not, before anything else is decided."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """With the active controller; nobody else decides anything."""
        self._balancer = Balancer(self._limits)
        if self.mode != OFF:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        self.load.clear()
        self.proposed = []
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def heard(self, broker_id: int, told: LoadData) -> None:
        partitions = {
            (each.topic_id, each.partition): PartitionLoad(each.bytes_in, each.bytes_out, each.share)
            for each in told.partitions
        }
        report = BrokerLoad(told.busy, told.cpu, told.queue_ms, told.disk_free, told.disk_size, partitions)
        self.load.heard(broker_id, report, self.now_ms())

    def loads(self) -> dict[int, BrokerLoad]:
        return self.load.all(self.now_ms())

    @staticmethod
    def now_ms() -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self._balance()
            except ApiError as error:
                log.info("balancing: %s", error)
            except Exception:
                log.exception("balancing")

    async def _balance(self) -> None:
        known = self.proposed
        async with self._one_at_a_time:
            self.proposed = await self._decide(self._balancer)
            if self.mode == ON:
                await self._make(self.proposed)
                return
        for move in self.proposed:
            if move not in known:
                log.info("the balancer proposes: %s (%s: %s)", move.text, move.rule, move.reason)

    async def _make(self, moves: list[Move]) -> list[Move]:
        """Those that could be made."""
        made = []
        for move in moves:
            if await self.carry_out(move):
                self._balancer.moved(move, self.now_ms())
                made.append(move)
        return made

    async def _decide(self, balancer: Balancer) -> list[Move]:
        """In another thread: with thousands of partitions it would hold up heartbeats and votes."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, balancer.decide, self._image(), self.loads(), self.now_ms())

    async def at_once(self, *, is_dry_run: bool) -> list[Move]:
        """What is due without waiting: what can be done of it is done, unless it is only to be told."""
        limits = replace(self._limits, grace_ms=0, busy_ms=0, calm_ms=0, window_ms=0)
        async with self._one_at_a_time:
            moves = await self._decide(Balancer(limits))
            return moves if is_dry_run else await self._make(moves)

    async def carry_out(self, move: Move) -> bool:
        """Whether anything was changed: the partition may not be any more as it was."""

        def decide(image: MetadataImage) -> tuple[Sequence[MetadataRecord], bool]:
            records = records_of(image, move, self._min_insync)
            return records, bool(records)

        return await self._change(decide)
