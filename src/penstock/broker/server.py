"""The listening socket and the connections behind it."""

from __future__ import annotations

import asyncio
import resource
import socket
from typing import TYPE_CHECKING, Final

from penstock.broker.admission import Admission, node_called
from penstock.broker.connection import Connection
from penstock.broker.router import Router
from penstock.listening import BACKLOG
from penstock.wire.codec import read_request_header
from penstock.wire.frames import SCRATCH_SIZE, FramePool

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

RESERVED_DESCRIPTORS: Final = 400
"""For logs, and for what comes and goes; connections may not take them."""
POOLED_FRAMES_MAX: Final = 16
PROGRESS_CHECK_S: Final = 1.0
GOODBYE_S: Final = 2.0


class Server:
    """Owns the connections and what they share: receive buffer, memory budget, router."""

    def __init__(self, broker: Broker) -> None:
        self.loop = asyncio.get_running_loop()
        self._broker = broker
        self.limits = broker.config.limits
        self.metrics = broker.metrics
        self.memory = broker.memory
        self.router = Router(broker)
        self.scratch = memoryview(bytearray(SCRATCH_SIZE))
        self.pool = FramePool(POOLED_FRAMES_MAX)
        self._connections = Admission(self.limits, raise_descriptor_limit() - RESERVED_DESCRIPTORS)
        self._server: asyncio.Server | None = None
        self._progress_check: asyncio.TimerHandle | None = None
        self._all_gone = asyncio.Event()

    @property
    def count(self) -> int:
        return len(self._connections)

    async def listen(self, listening: socket.socket) -> None:
        self._server = await self.loop.create_server(
            lambda: Connection(self), sock=listening, backlog=BACKLOG
        )
        self._check_progress()

    async def close(self) -> None:
        if self._progress_check is not None:
            self._progress_check.cancel()
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.shut_down()
        if self._connections:
            self._all_gone.clear()
            try:
                await asyncio.wait_for(self._all_gone.wait(), GOODBYE_S)
            except TimeoutError:
                for connection in tuple(self._connections):
                    connection.abort()

    def refusal(self, connection: Connection) -> str | None:
        """Take the connection in, or say why not."""
        return self._connections.refusal(connection)

    def is_on_trial(self, connection: Connection) -> bool:
        """Whether it may stay only if it is another node's."""
        return self._connections.is_on_trial(connection)

    def try_node(self, connection: Connection, frame: bytes | memoryview) -> bool:
        """Whether the first request of a connection on trial is another node's. Raises DecodeError."""
        node_id = node_called(read_request_header(frame).client_id)
        if node_id is None or not self._broker.knows_node(node_id):
            return False
        self._connections.passed(connection)
        return True

    def forget(self, connection: Connection) -> None:
        self._connections.forget(connection)
        if connection.state.heartbeats_of is not None:
            self._broker.connection_lost(*connection.state.heartbeats_of)
        if not self._connections:
            self._all_gone.set()

    def _check_progress(self) -> None:
        now = self.loop.time()
        for connection in tuple(self._connections):
            connection.check_progress(now)
        self._progress_check = self.loop.call_later(PROGRESS_CHECK_S, self._check_progress)


def raise_descriptor_limit() -> int:
    """Let the process open as many files as it may; how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
