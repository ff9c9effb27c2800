"""Connections between simulated processes: requests arrive in order, or the connection breaks.

What is lost on its way holds up all that follows, until the sender gives up and closes the connection. From
then on the receiver takes nothing more from it (`drops_closed`; test_transaction_mutations.py shows what that
is worth). A sender that dies closes nothing: what it sent may arrive long after it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.peers.connection import PeerError
from penstock.types import ApiError

if TYPE_CHECKING:
    from tests.sim.process_loop import ProcessLoop
    from tests.sim.transaction_broker import Broker
    from tests.sim.transaction_cluster import Cluster

Request = Callable[["Broker"], Awaitable[Any]]
REPLICAS = "replicas"
"""These lanes are as the network is."""
RETRANSMIT_MS = 100
LATE_MS = (10, 250)
"""How late some of the others come, in seeds where that happens: often after they were given up."""


class Connections:
    """Of one process, to any broker; each lane is a connection of its own."""

    drops_closed = True

    def __init__(self, cluster: Cluster, source: int, loop: ProcessLoop) -> None:
        self._cluster, self._source, self._loop = cluster, source, loop
        self._open: dict[tuple[int, str], _Connection] = {}

    async def ask(self, target: int, lane: str, request: Request, timeout_ms: int) -> Any:
        """What the request comes to there. Raises ApiError, or PeerError if no answer comes."""
        connection = self._open.get((target, lane))
        if connection is None or connection.is_closed:
            connection = _Connection(self._cluster, self._source, target, self._loop, lane)
            self._open[target, lane] = connection
        return await connection.ask(request, timeout_ms)


@dataclass(slots=True, eq=False)
class _Message:
    request: Request
    answer: asyncio.Future[Any]
    is_there: bool = False


class _Connection:
    def __init__(self, cluster: Cluster, source: int, target: int, loop: ProcessLoop, lane: str) -> None:
        self._cluster, self._world = cluster, cluster.world
        self._source, self._target, self._loop = source, target, loop
        self._may_be_late = not lane.startswith(REPLICAS)
        self._random = cluster.stream_of(source, target)
        self._process = cluster.running.get(target)
        self._sent: deque[_Message] = deque()
        self._unanswered: dict[asyncio.Future[Any], None] = {}
        self.is_closed = False

    async def ask(self, request: Request, timeout_ms: int) -> Any:
        answer: asyncio.Future[Any] = self._loop.create_future()
        message = _Message(request, answer)
        self._sent.append(message)
        self._unanswered[answer] = None
        self._transmit(message)
        timer = self._loop.call_later(timeout_ms / 1000, self.close)
        try:
            return await answer
        finally:
            timer.cancel()
            self._unanswered.pop(answer, None)

    def close(self) -> None:
        self.is_closed = True
        for answer in list(self._unanswered):
            if not answer.done():
                answer.set_exception(PeerError("no answer"))

    def _transmit(self, message: _Message) -> None:
        """What is lost is sent again, and holds up what follows."""
        if not message.is_there and not self.is_closed:
            self._send(self._source, self._target, lambda: self._arrive(message))
            self._world.after(RETRANSMIT_MS, lambda: self._transmit(message))

    def _arrive(self, message: _Message) -> None:
        message.is_there = True
        process = self._cluster.running.get(self._target)
        while self._sent and self._sent[0].is_there:
            first = self._sent.popleft()
            if process is None or process is not self._process:
                self._back(self.close)
            else:
                process.loop.call_soon(self._serve, process, first.request, first.answer)

    def _serve(self, process: Broker, request: Request, answer: asyncio.Future[Any]) -> None:
        if self.is_closed and Connections.drops_closed:
            return

        async def serve() -> None:
            try:
                result = await request(process)
            except ApiError as error:
                self._back(lambda error=error: self._answered(answer, None, error))
            else:
                self._back(lambda: self._answered(answer, result, None))

        process.loop.create_task(serve())

    def _back(self, event: Callable[[], None]) -> None:
        self._send(self._target, self._source, lambda: self._loop.call_soon(event))

    def _send(self, source: int, target: int, event: Callable[[], None]) -> None:
        if self._may_be_late and self._random.random() < self._cluster.lateness:
            self._world.after(self._random.randint(*LATE_MS), event)
        else:
            self._world.send(source, target, event, may_double=False)

    def _answered(self, answer: asyncio.Future[Any], result: Any, error: ApiError | None) -> None:
        if answer.done() or self.is_closed:
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)
