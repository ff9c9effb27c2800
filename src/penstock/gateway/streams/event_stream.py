"""A response of Server-Sent Events without an end, for whatever produces them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import orjson
from starlette.responses import Response

from penstock.gateway.kafka.errors import KafkaClientError
from penstock.gateway.streams.closing import closing_of
from penstock.gateway.streams.following import Outflow, StalledError, first_to_end

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from penstock.gateway.settings import GatewayLimits
    from penstock.gateway.streams.state import Streams

EVENTS_TYPE: Final = "text/event-stream"
HEARTBEAT: Final = b": heartbeat\n\n"
FIRST: Final = b"retry: 1000\n\n"
"""How long a browser waits before it connects again; and the client learns at once that it is connected."""

Emit = Callable[[bytes], Awaitable[None]]
Source = Callable[[Emit], Awaitable[None]]
"""Emits whole events, for as long as it is let."""


def event(data: bytes, *, name: str | None = None, event_id: str | None = None) -> bytes:
    """`data` is JSON, and so without line breaks."""
    head = (f"event: {name}\n" if name else "") + (f"id: {event_id}\n" if event_id else "")
    return b"%sdata: %s\n\n" % (head.encode(), data)


class EventStream(Response):
    media_type = EVENTS_TYPE

    def __init__(self, source: Source, streams: Streams, limits: GatewayLimits) -> None:
        """It ends when the gateway stops; browsers then connect again by themselves."""
        super().__init__(None, headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._source = source
        self._streams = streams
        self._heartbeat_s = limits.stream_heartbeat_seconds
        self._stall_s_max = limits.stream_stall_seconds_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(start)
        outflow = Outflow(self._stall_s_max)

        async def emit(events: bytes) -> None:
            await outflow.send(send({"type": "http.response.body", "body": events, "more_body": True}))

        async def heartbeat() -> None:
            while True:
                await asyncio.sleep(self._heartbeat_s)
                await emit(HEARTBEAT)

        async def until_stopped() -> None:
            await self._streams.stopping.wait()

        async def follow() -> None:
            await emit(FIRST)
            await self._source(emit)

        last: dict[str, Any] = {"type": "http.response.body", "body": b"", "more_body": False}
        try:
            await first_to_end(follow(), heartbeat(), outflow.watch(), until_gone(receive), until_stopped())
        except (KafkaClientError, StalledError) as error:
            if isinstance(error, StalledError):
                self._streams.metrics.stalled()
            code, reason = closing_of(error)
            body = {"status": "failure", "message": reason, "code": code}
            last["body"] = event(orjson.dumps(body), name="error")
        except OSError:
            return  # the client is gone
        try:
            async with asyncio.timeout(self._stall_s_max):
                await send(last)
        except (OSError, TimeoutError):
            return  # it takes nothing any more, not even the reason


async def until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
