"""The traffic client for coroutines."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from penstock.client.errors import ClosedError
from penstock.client.types import DEFAULT_TIMEOUT_S
from penstock.traffic.client import TrafficClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from penstock.client.kafka.topic_clusters import Cluster
    from penstock.traffic.grid import Grid
    from penstock.traffic.position import Position

P = ParamSpec("P")
T = TypeVar("T")

CALLS_AT_ONCE_MAX: Final = 16
"""More wait for their turn. Positions that are written at the same time travel together."""


class AsyncTrafficClient:
    """A TrafficClient whose methods are coroutines. Many may be awaited at the same time.

    >>> import asyncio
    >>> from penstock.traffic import AsyncTrafficClient, Position
    >>> async def main():
    ...     async with AsyncTrafficClient("127.0.0.1:9092", car="bus 4") as client:
    ...         await client.ensure_topics()
    ...         await client.write_many(Position("bus 4", 49.21, -123.02, ts=ts) for ts in (2, 1, 3))
    ...         return [position.ts for position in await client.read("traffic.r0.c1")]
    >>> asyncio.run(main())
    [1, 2, 3]

    Each call waits in a thread of this client, not in the event loop. One that is cancelled is not waited for
    any more, and goes on there: its positions may be stored or not.
    """

    def __init__(
        self,
        broker: str,
        car: str | int,
        *,
        grid: Grid | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        self._client = TrafficClient(broker, car, grid=grid, timeout_s=timeout_s)
        self._threads = ThreadPoolExecutor(CALLS_AT_ONCE_MAX, thread_name_prefix="penstock-traffic")
        self._closed = False

    @property
    def car(self) -> str:
        return self._client.car

    async def grid(self) -> Grid:
        """As `TrafficClient.grid`."""
        return await self._run(lambda: self._client.grid)

    async def topic(self, place: Position | tuple[float, float]) -> str:
        """As `TrafficClient.topic`."""
        return await self._run(self._client.topic, place)

    async def create_topic(self, name: str) -> Cluster:
        """As `TrafficClient.create_topic`."""
        return await self._run(self._client.create_topic, name)

    async def ensure_topics(self) -> None:
        """As `TrafficClient.ensure_topics`."""
        await self._run(self._client.ensure_topics)

    async def get_cluster(self, name: str) -> Cluster:
        """As `TrafficClient.get_cluster`."""
        return await self._run(self._client.get_cluster, name)

    async def get_current_location_cluster(self, place: Position | tuple[float, float]) -> Cluster:
        """As `TrafficClient.get_current_location_cluster`."""
        return await self._run(self._client.get_current_location_cluster, place)

    async def write(self, topic: str, positions: Position | Iterable[Position]) -> None:
        """As `TrafficClient.write`."""
        await self._run(self._client.write, topic, positions)

    async def write_many(self, positions: Iterable[Position]) -> None:
        """As `TrafficClient.write_many`."""
        await self._run(self._client.write_many, positions)

    async def read(self, topic: str) -> list[Position]:
        """As `TrafficClient.read`."""
        return await self._run(self._client.read, topic)

    async def close(self) -> None:
        """Waits for what is being written, then ends connections and threads."""
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._end)

    def _end(self) -> None:
        self._threads.shutdown()
        self._client.close()

    async def _run(self, call: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        if self._closed:
            raise ClosedError("the client is closed")
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(call, *args, **named))

    async def __aenter__(self) -> AsyncTrafficClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
