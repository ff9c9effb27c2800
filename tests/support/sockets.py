"""WebSocket clients of a gateway, for tests: plain calls that wait with a deadline."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from websockets.sync.client import ClientConnection, connect

from tests.support.wait import PATIENCE

if TYPE_CHECKING:
    from tests.support.gateway import GatewayProcess

RECEIVE_S_MAX = 20.0
CLOSE_S_MAX = 0.5
"""How long a client waits for the gateway's goodbye. One that was killed never says it, and the client does
not see that its connection has ended behind messages that nobody takes."""


def open_socket(gateway: GatewayProcess, path: str, **options: Any) -> ClientConnection:
    """A connection to `/v1/topics/…`; for use in a `with`."""
    url = f"ws://127.0.0.1:{gateway.port}/v1/topics/{path}"
    return connect(url, proxy=None, close_timeout=CLOSE_S_MAX, **options)


def receive(socket: ClientConnection) -> dict[str, Any]:
    return dict(json.loads(socket.recv(RECEIVE_S_MAX * PATIENCE)))


def receive_bytes(socket: ClientConnection) -> bytes:
    content = socket.recv(RECEIVE_S_MAX * PATIENCE)
    assert isinstance(content, bytes)
    return content


def write(socket: ClientConnection, **fields: Any) -> None:
    socket.send(json.dumps(fields))


def ask(socket: ClientConnection, **fields: Any) -> dict[str, Any]:
    """Write one message; its answer."""
    write(socket, **fields)
    return receive(socket)
