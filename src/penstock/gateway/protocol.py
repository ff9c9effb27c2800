"""uvicorn's HTTP/1.1 protocol with limits on connections and heads, and with JSON for every error.

What is refused here never becomes a request: too many connections, a head that is too long or takes too long,
bytes that are not HTTP. The answer is one error and a closed connection.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from penstock.gateway.errors import failure_body

if TYPE_CHECKING:
    from penstock.gateway.settings import GatewayLimits

Headers = Sequence[tuple[bytes, bytes]]

RESPOND: Final = "penstock.respond"
"""The extension of a request's scope under which `respond` is found."""


def respond(cycle: RequestResponseCycle, status: int, headers: Headers, body: bytes) -> bool:
    """A whole answer in one write. False if it has to wait, or has begun: `send` does it then.

    uvicorn's `send` writes the head and the body apart, and looks at each header for what may be wrong with
    it. For short answers with headers of our own, that is a third of all the work.
    """
    if cycle.response_started or cycle.flow.write_paused or cycle.scope["method"] == "HEAD":
        return False
    if cycle.disconnected:
        return True
    lines = [STATUS_LINE[status]]
    for name, value in (*cycle.default_headers, *headers):
        lines += (name, b": ", value, b"\r\n")
    if not cycle.keep_alive:
        lines.append(b"connection: close\r\n")
    lines += (b"\r\n", body)
    cycle.transport.write(b"".join(lines))
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True


class GatewayProtocol(HttpToolsProtocol):
    limits: GatewayLimits
    per_address: Counter[str]
    """Connections by client address, of one server."""

    @classmethod
    def with_limits(cls, limits: GatewayLimits) -> type[GatewayProtocol]:
        """uvicorn makes instances by itself, so what they share is in a class of their own."""
        return type("LimitedProtocol", (cls,), {"limits": limits, "per_address": Counter()})

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._in_head = True
        self._is_whole = False
        self._timer: asyncio.TimerHandle | None = None
        """Runs while a request is incomplete; one that comes in one piece never needs it."""
        self._address: str | None = None
        self._refused = False

    # asyncio's callbacks

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self.per_address[self._address] += 1
        if len(self.connections) > self.limits.connections_max:
            self._refuse(503, "too many connections")
        elif self.per_address[self._address] > self.limits.connections_per_address_max:
            self._refuse(429, "too many connections from your address")
        else:
            self._timer = self.loop.call_later(self.limits.request_seconds_max, self._took_too_long)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > self.limits.head_bytes_max:
            self._refuse(431, f"the head of a request may have {self.limits.head_bytes_max} bytes")
        elif self._is_whole:
            self._stop_timer()
        elif self._timer is None and not self._refused:
            self._timer = self.loop.call_later(self.limits.request_seconds_max, self._took_too_long)

    # httptools' and uvicorn's callbacks

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._is_whole = False

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_bytes = 0
        super().on_headers_complete()
        if self.cycle is not None and self.cycle.scope is self.scope:
            # An extension's entry is a dictionary by the rules; this one never leaves the process.
            self.scope["extensions"] = cast("Any", {RESPOND: partial(respond, self.cycle)})

    def on_message_complete(self) -> None:
        self._in_head = self._is_whole = True  # what comes next is another head
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        self._stop_timer()
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn gives it
        self._refuse(400, "that is not HTTP")

    def _took_too_long(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self._refuse(408, "the request did not arrive in time")

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: int, message: str) -> None:
        self._refused = True
        body = failure_body(message)
        head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(
            body
        )
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()

    def _forget(self) -> None:
        self._stop_timer()
        if self._address is not None:
            self.per_address[self._address] -= 1
            if not self.per_address[self._address]:
                del self.per_address[self._address]
            self._address = None
