"""Retention and compaction, now and then, one partition at a time, out of the way of the event loop."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from penstock.storage import StorageError, run_compaction

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.partition import Partition

log = logging.getLogger(__name__)


class Housekeeper:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._broker.config.housekeeping_ms / 1000)
            await self.look_after_all()

    async def look_after_all(self) -> None:
        for partition in self._broker.partitions:
            try:
                await self._look_after(partition)
            except StorageError as error:
                log.error("housekeeping of %s-%d: %s", partition.topic, partition.index, error)
            await asyncio.sleep(0)  # a thousand partitions must not hold up the loop

    async def _look_after(self, partition: Partition) -> None:
        now_ms = self._broker.now_ms()
        for line in partition.log.apply_retention(now_ms=now_ms, high_watermark=partition.high_watermark):
            log.info("retention of %s-%d: %s", partition.topic, partition.index, line)
        plan = partition.log.compaction_plan(now_ms=now_ms, high_watermark=partition.high_watermark)
        if plan is not None:
            result = await asyncio.get_running_loop().run_in_executor(None, run_compaction, plan)
            for line in partition.log.finish_compaction(result):
                log.info("compaction of %s-%d: %s", partition.topic, partition.index, line)
