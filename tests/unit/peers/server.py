"""A node as others see it: frames in, frames out, as the test says."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import NamedTuple


class Asked(NamedTuple):
    """A request, as far as a connection cares."""

    correlation_id: int
    frame: bytes
    """Without its length."""


Answer = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


class SmallServer:
    """Calls `answer` with each request, one after the other; counts connections."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self.connections = 0
        self.asked: list[Asked] = []
        self.port = 0

    async def __aenter__(self) -> SmallServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in tuple(self._open):
            writer.transport.abort()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                asked = Asked(struct.unpack_from(">i", frame, 4)[0], frame)
                self.asked.append(asked)
                await self._answer(asked, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the other side is gone
        finally:
            self._open.discard(writer)
            writer.close()


def answer_frame(correlation_id: int, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


async def echo(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """What comes after the correlation id of the request."""
    writer.write(answer_frame(asked.correlation_id, asked.frame[8:]))


async def silence(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """No answer, ever."""
