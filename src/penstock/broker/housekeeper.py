"""Retention and compaction, now and then, one partition at a time, out of the way of the event loop."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING

from penstock.storage import CompactionPlan, CompactionResult, StorageError, run_compaction

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
            log.info("retention: %s", line)
        plan = partition.log.compaction_plan(now_ms=now_ms, high_watermark=partition.high_watermark)
        if plan is not None:
            for line in partition.log.finish_compaction(await compact(plan)):
                log.info("compaction: %s", line)


async def compact(plan: CompactionPlan) -> CompactionResult:
    """Carry out a plan in a child process: it opens every record, and would hold the GIL all the while."""
    if plan.folder is None:
        return run_compaction(plan)  # batches in memory would have to travel to the child and back
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "penstock.storage.compact",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        answer, complaint = await child.communicate(plan.to_json().encode())
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if child.returncode != 0:
        lines = complaint.decode(errors="replace").splitlines() or [f"exit code {child.returncode}"]
        raise StorageError(f"compaction failed: {lines[-1]}")
    return CompactionResult.from_json(plan, answer.decode())
