"""One connection to another node: requests out, answers back in the same order."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, cast

from penstock.wire.exchange import correlation_id_of
from penstock.wire.frames import SCRATCH_SIZE, FrameDecoder, FrameError, FramePool
from penstock.wire.primitives import DecodeError

if TYPE_CHECKING:
    from penstock.wire.batch import Buffer

FRAME_BYTES_MAX: Final = 256 * 1024 * 1024


class PeerError(Exception):
    """No answer came. Whether the request was carried out is not known."""


class PeerDownError(PeerError):
    """Nobody listens at that address: the process is gone."""


class PeerConnection(asyncio.BufferedProtocol):
    def __init__(self, peer: str) -> None:
        self._peer = peer
        self._decoder = FrameDecoder(
            memoryview(bytearray(SCRATCH_SIZE)), FramePool(0), FRAME_BYTES_MAX, trusts_peer=True
        )
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[tuple[int, asyncio.Future[bytes | memoryview]]] = deque()
        self._correlation_id = 0
        self.is_closed = False

    @classmethod
    async def open(cls, host: str, port: int, timeout_s: float) -> PeerConnection:
        loop = asyncio.get_running_loop()
        peer = f"{host}:{port}"
        try:
            async with asyncio.timeout(timeout_s):
                _, connection = await loop.create_connection(lambda: cls(peer), host, port)
        except ConnectionRefusedError as error:
            raise PeerDownError(f"{peer}: connection refused") from error
        except OSError as error:  # TimeoutError is one
            raise PeerError(f"{peer}: {error.strerror or 'no connection in time'}") from error
        return connection

    def next_correlation_id(self) -> int:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        return self._correlation_id

    async def ask(self, correlation_id: int, buffers: list[Buffer], timeout_s: float) -> bytes | memoryview:
        """Send a frame that carries the correlation id; the frame of its answer."""
        if self._transport is None or self.is_closed:
            raise PeerError(f"{self._peer}: the connection is closed")
        answer: asyncio.Future[bytes | memoryview] = asyncio.get_running_loop().create_future()
        self._waiting.append((correlation_id, answer))
        self._transport.writelines(buffers)
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError as error:
            # Later answers would have to wait behind this one.
            self.close(f"{self._peer}: no answer in {timeout_s} s")
            raise PeerError(f"{self._peer}: no answer in {timeout_s} s") from error
        except asyncio.CancelledError:
            self.close(f"{self._peer}: given up")
            raise

    def close(self, reason: str) -> None:
        self.is_closed = True
        if self._transport is not None:
            self._transport.abort()
        while self._waiting:
            _, answer = self._waiting.popleft()
            if not answer.done():
                answer.set_exception(PeerError(reason))

    # asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's has its methods, not its type

    def connection_lost(self, exc: Exception | None) -> None:
        self.close(f"{self._peer}: {exc or 'the connection was closed'}")

    def eof_received(self) -> bool:
        return False

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio gives it
        if self._decoder.wants_memory:
            self._decoder.grow()
        return self._decoder.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._decoder.received(nbytes):
                self._answered(frame)
        except (FrameError, DecodeError) as error:
            self.close(f"{self._peer}: {error}")

    def _answered(self, frame: bytes | memoryview) -> None:
        if not self._waiting:
            raise DecodeError("an answer that nobody asked for")
        correlation_id, answer = self._waiting[0]
        if correlation_id_of(frame) != correlation_id:
            raise DecodeError("an answer to another request")
        self._waiting.popleft()
        if not answer.done():
            answer.set_result(frame)
