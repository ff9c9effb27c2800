"""uvicorn's WebSocket protocol, for clients that do not read.

uvicorn sends a close frame only when what was sent before has left the buffer, and then waits for the buffer
to become empty. A client that does not read would keep its connection for ever. Here the close frame is put
behind what the buffer holds, so that a client that wakes up learns why, and the connection ends after
`stream_close_seconds_max` whether the client has read it or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent

    from penstock.gateway.settings import GatewayLimits


class GatewaySocketProtocol(WebSocketsSansIOProtocol):
    close_seconds_max: float

    @classmethod
    def with_limits(cls, limits: GatewayLimits) -> type[GatewaySocketProtocol]:
        """uvicorn makes instances by itself, so what they share is in a class of their own."""
        fields = {"close_seconds_max": limits.stream_close_seconds_max}
        return type("LimitedSocketProtocol", (cls,), fields)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.close_timeout = self.close_seconds_max

    async def send(self, message: ASGISendEvent) -> None:
        if message["type"] == "websocket.close" and self.handshake_complete and not self.disconnected:
            self.writable.set()
            await super().send(message)
            self._end_soon()
        else:
            await super().send(message)

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self._end_soon()

    def shutdown(self) -> None:
        super().shutdown()
        self._end_soon()

    def _end_soon(self) -> None:
        self.loop.call_later(self.close_timeout, self.transport.abort)
