"""Calling an ASGI application without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson


@dataclass
class Called:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    sent: list[dict[str, Any]] = field(default_factory=list)

    def json(self) -> Any:
        return orjson.loads(self.body)


def call(
    app: Any,
    method: str = "GET",
    path: str = "/",
    *,
    headers: Iterable[tuple[str, str]] = (),
    query: str = "",
    body: bytes | Iterable[bytes] = b"",
    client: str = "127.0.0.1",
    kind: str = "http",
    extensions: dict[str, Any] | None = None,
) -> Called:
    """One request; a body in pieces is sent as such."""
    scope = {
        "type": kind,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
        "client": (client, 50_000),
        "extensions": extensions or {},
    } | ({"method": method} if kind == "http" else {})
    pieces = [body] if isinstance(body, bytes) else list(body)
    messages = [
        {"type": "http.request", "body": piece, "more_body": i + 1 < len(pieces)}
        for i, piece in enumerate(pieces)
    ]
    answer = Called()

    async def receive() -> dict[str, Any]:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        answer.sent.append(message)
        if message["type"].endswith("response.start"):
            answer.status = message["status"]
            answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        elif message["type"].endswith("response.body"):
            answer.body += message["body"]

    asyncio.run(app(scope, receive, send))
    return answer
