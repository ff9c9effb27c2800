"""The heartbeats of the service, followed from when somebody first asks about the service or the cluster."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from penstock.flights.topics import HEARTBEATS
from penstock.gateway.flights.pulse import Pulse
from penstock.gateway.traffic.following import TopicFollower, offset_at

if TYPE_CHECKING:
    from penstock.gateway.kafka.reader import LogReader
    from penstock.kafka.records import ReadRecord

FIRST_S_MAX: Final = 1.0
"""How long, from the beginning on, somebody waits for the first of them. The state of a cluster whose brokers
are away must be told all the same."""
OLDEST_MS: Final = 3_600_000


def clock_ms() -> int:
    return time.time_ns() // 1_000_000


class Heartbeats:
    def __init__(self, reader: LogReader) -> None:
        self.pulse = Pulse()
        self._follower = TopicFollower(
            reader, HEARTBEATS, begin=self._begin, apply=self._apply, clear=self.pulse.clear
        )
        self._task = asyncio.create_task(self._follower.run())
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + FIRST_S_MAX

    async def known(self) -> Pulse:
        """What is known after a moment."""
        if self._task.done():
            self._task.result()  # only a fault of its own ends it, and whoever asks should hear of it
        left_s = self._until - self._loop.time()
        if left_s > 0 and not self._follower.caught_up.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._follower.caught_up.wait()
        return self.pulse

    def state(self) -> str:
        """Of the service, in one word."""
        return self.pulse.state(clock_ms())

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _begin(self, reader: LogReader, topic: str, partition: int) -> int:
        return await offset_at(reader, topic, partition, clock_ms() - OLDEST_MS)

    def _apply(self, records: list[ReadRecord]) -> None:
        is_old = not self._follower.caught_up.is_set()
        for record in records:
            self.pulse.apply(record.key, record.value, clock_ms(), is_old=is_old)
