"""Retention, compaction, repairs and checkpoints now and then, out of the way of the event loop."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from penstock.broker.consumed_retention import ConsumedRetention
from penstock.broker.repairs import Repairs
from penstock.broker.unread_topics import UnreadTopics
from penstock.storage import CompactionPlan, CompactionResult, StorageError, run_compaction

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.partition import Partition

log = logging.getLogger(__name__)

OPEN_AGAIN_S: Final = 5.0
"""Between two attempts to open logs that could not be opened or written."""
LOOK_S: Final = 1.0
"""Between two looks for disks that do not answer."""


class Housekeeper:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._consumed = ConsumedRetention(broker)
        self._repairs = Repairs(broker.config.node_id, broker.peers, broker.damaged_logs, broker.metrics)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        config = self._broker.config
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._repeat(config.retention_check_ms, self.apply_retention)),
            loop.create_task(self._consumed.run()),
            loop.create_task(UnreadTopics(self._broker).run()),
            loop.create_task(self._repeat(config.compaction_check_ms, self.apply_compaction)),
            loop.create_task(self._note_high_watermarks()),
            loop.create_task(self._look()),
            loop.create_task(self._open_failed()),
            loop.create_task(self._broker.scrubber.run()),
            loop.create_task(self._repeat(config.repair_check_ms, self._repairs.repair)),
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _repeat(self, interval_ms: int, work: Callable[[Partition], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            for partition in self._broker.partitions:
                try:
                    await work(partition)
                except Exception as error:
                    # Whatever is wrong with one partition, the others are looked after, and this one again.
                    if not isinstance(error, StorageError):
                        log.exception("housekeeping of %s-%d", partition.topic, partition.index)
                    else:
                        log.error("housekeeping: %s", error)
                await asyncio.sleep(0)  # a thousand partitions must not hold up the loop

    async def _open_failed(self) -> None:
        partitions = self._broker.partitions
        while True:
            await asyncio.sleep(OPEN_AGAIN_S)
            try:
                if partitions.offline:
                    await partitions.open_failed()
            except Exception:
                log.exception("opening what could not be opened")

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                self._broker.partitions.look()
            except Exception:
                log.exception("looking for logs that are out of service")

    async def _note_high_watermarks(self) -> None:
        broker = self._broker
        while True:
            await asyncio.sleep(broker.config.high_watermark_checkpoint_ms / 1000)
            try:
                await broker.lost_replicas.note_high_watermarks(broker.partitions)
            except StorageError as error:
                log.error("housekeeping: %s", error)

    async def apply_retention(self, partition: Partition) -> None:
        now_ms = self._broker.now_ms()
        for line in partition.log.apply_retention(now_ms=now_ms, high_watermark=partition.high_watermark):
            log.info("retention: %s", line)

    async def apply_compaction(self, partition: Partition) -> None:
        now_ms = self._broker.now_ms()
        plan = partition.log.compaction_plan(now_ms=now_ms, bound=partition.last_stable_offset)
        if plan is None:
            return
        try:
            result = await compact(plan)
        except BaseException:
            partition.log.discard_compaction(plan)
            raise
        for line in partition.log.finish_compaction(result):
            log.info("compaction: %s", line)


async def compact(plan: CompactionPlan) -> CompactionResult:
    """Carry out a plan in a child process: it opens every record, and would hold the GIL all the while."""
    if plan.folder is None:
        # Batches in memory would have to travel to the child and back.
        return await asyncio.get_running_loop().run_in_executor(None, run_compaction, plan)
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
