"""One reader of a topic, from the log to the network.

There is no queue in between: a task per partition takes a list of records from the log and sends it on, and
while the network does not take it, it does not come back for more. So a reader that is slow for a while costs
one list per partition, and goes on later where it was, since the log keeps what it has not read yet. Only one
that takes nothing at all for `stream_stall_seconds_max` is let go, as its connection is worth more to others.

Order is that of the log within a partition. Partitions that are added while somebody follows are noticed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from penstock.gateway.kafka.reader import LogReader
    from penstock.gateway.streams.start import Positions
    from penstock.kafka.records import ReadRecord

NEW_PARTITIONS_S: Final = 5.0
STALL_CHECKS: Final = 4
"""Per limit."""

Deliver = Callable[[list["ReadRecord"]], Awaitable[None]]


class StalledError(Exception):
    """The reader has not taken anything for too long."""


class Outflow:
    """Sending to one reader, with an eye on whether it takes what it is sent."""

    def __init__(self, seconds_max: float) -> None:
        self._seconds_max = seconds_max
        self._loop = asyncio.get_running_loop()
        self._sending = 0
        self._moved_at = 0.0

    async def send(self, sending: Awaitable[None]) -> None:
        if self._sending == 0:
            self._moved_at = self._loop.time()
        self._sending += 1
        try:
            await sending
        finally:
            self._sending -= 1
            self._moved_at = self._loop.time()

    async def watch(self) -> None:
        """Ends, with StalledError, when nothing moves any more."""
        while True:
            await asyncio.sleep(self._seconds_max / STALL_CHECKS)
            if self._sending and self._loop.time() - self._moved_at >= self._seconds_max:
                raise StalledError(f"nothing was taken for {self._seconds_max:g} s")


async def follow_topic(
    reader: LogReader, topic: str, positions: Positions, deliver: Deliver, *, all_partitions: bool
) -> None:
    """Deliver everything from `positions` on, for ever; `positions` are kept up to date.

    Raises what ends it: errors of the reader, and what `deliver` raises.
    """

    async def follow(partition: int) -> None:
        async with aclosing(reader.follow(topic, partition, positions[partition])) as lists:
            async for records in lists:
                await deliver(records)
                positions[partition] = records[-1].offset + 1

    async def follow_new_partitions() -> None:
        while True:
            await asyncio.sleep(NEW_PARTITIONS_S)
            for partition in await reader.partitions(topic):
                if partition not in positions:
                    positions[partition] = 0
                    tasks.start(follow(partition))

    tasks = FirstToEnd()
    for partition in positions:
        tasks.start(follow(partition))
    if all_partitions:
        tasks.start(follow_new_partitions())
    await tasks.wait()


class FirstToEnd:
    """Tasks of which the first that ends, in whatever way, ends them all."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._one_ended)

    async def wait(self) -> None:
        """Until one has ended; raises its exception, if it has one."""
        try:
            await self._ended
        finally:
            for task in self._tasks:
                task.cancel()
            # What others raise while they are cancelled is a consequence, and nobody asks for it.
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _one_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._ended.done() or task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._ended.set_result(None)
        else:
            self._ended.set_exception(error)


async def first_to_end(*works: Coroutine[Any, Any, None]) -> None:
    tasks = FirstToEnd()
    for work in works:
        tasks.start(work)
    await tasks.wait()
