"""What stands before the application: every request passes here first, and some no further.

In this order: a request id, where the request comes from, how often, who asks, how much it brings. A body is
counted as it arrives if its length was not announced. All of it is one plain ASGI middleware: every request
pays for each layer.
"""

from __future__ import annotations

import itertools
import re
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from penstock.gateway.access import Level, Tokens, needed
from penstock.gateway.errors import ApiFailure, failure_body
from penstock.gateway.origins import ENTRANCES, Origins
from penstock.gateway.rates import Rates
from penstock.hosts import KnownHosts, is_loopback

if TYPE_CHECKING:
    from penstock.gateway.settings import GatewaySettings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
POLICY_VIOLATION: Final = 1008
EXTRA_HEADERS: Final = "penstock.headers"
"""In a scope: what every answer carries, for who does not answer through `send`."""
LEVEL: Final = "penstock.level"
"""In a scope: what the request's token is for. Without tokens everybody may do all."""
NO_SNIFFING: Final = (b"x-content-type-options", b"nosniff")
PREFLIGHT_S: Final = b"600"
WANTED: Final = frozenset(
    {b"x-request-id", b"authorization", b"host", b"origin", b"sec-fetch-site", b"content-length"}
)


class Guard:
    def __init__(self, app: App, settings: GatewaySettings, tokens: Tokens | None) -> None:
        limits = settings.limits
        self._app = app
        self._tokens = tokens
        self._body_bytes_max = limits.body_bytes_max
        self._rates = Rates(limits.requests_per_second_max, limits.requests_burst_max, limits.addresses_max)
        allowed = frozenset(origin.encode() for origin in settings.cors_origins)
        self._origins = Origins(
            allowed,
            local_only=tokens is None and not settings.no_auth,
            # Who has no token gets nothing by a wrong name.
            hosts=KnownHosts.of(settings.host, *settings.hosts) if tokens is None else None,
        )
        self._prefix = secrets.token_hex(4)
        self._numbers = itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {name: value for name, value in scope["headers"] if name in WANTED}
        request_id = headers.get(b"x-request-id")
        if request_id is None or not REQUEST_ID.fullmatch(request_id):
            request_id = b"%s-%d" % (self._prefix.encode(), next(self._numbers))
        extra = [(b"x-request-id", request_id), NO_SNIFFING, *self._cors(headers)]

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *extra]
            await send(message)

        try:
            self._check(scope, headers)
        except ApiFailure as failure:
            await refuse(scope, send_with_headers, failure)
            return
        if is_preflight(scope, headers):
            await answer_preflight(send_with_headers)
            return
        if scope["type"] == "http" and b"content-length" not in headers:
            receive = self._counted(receive)
        scope[EXTRA_HEADERS] = extra
        await self._app(scope, receive, send_with_headers)

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Raises the answer if the request goes no further."""
        fetch_site = headers.get(b"sec-fetch-site") if scope["path"] not in ENTRANCES else None
        reason = self._origins.refuses(headers.get(b"host"), headers.get(b"origin"), fetch_site)
        if reason is not None:
            raise ApiFailure(403, reason)
        client = scope.get("client")
        if client is not None and not is_loopback(client[0]):
            wait_s = self._rates.wait_s(client[0], time.monotonic())
            if wait_s > 0:
                after = {"retry-after": str(max(1, round(wait_s)))}
                raise ApiFailure(429, "too many requests from your address", headers=after)
        if self._tokens is not None and not is_preflight(scope, headers):
            self._check_token(self._tokens, scope, headers)
        length = headers.get(b"content-length")
        if length is not None and int(length) > self._body_bytes_max:
            raise ApiFailure(413, f"a body may have {self._body_bytes_max} bytes")

    def _check_token(self, tokens: Tokens, scope: Scope, headers: dict[bytes, bytes]) -> None:
        need = needed(scope["type"], scope.get("method", "GET"), scope["path"])
        authorization = headers.get(b"authorization") or token_in_query(scope)
        level = tokens.level(authorization)
        if level is not None and level >= need:
            scope[LEVEL] = level
            return
        if level is None or level is Level.OPEN:
            reason = "that token is not known" if level is None else "a token is needed"
            raise ApiFailure(401, reason, headers={"www-authenticate": "Bearer"})
        raise ApiFailure(403, f"that takes a token for {need.name.lower()}")

    def _counted(self, receive: Receive) -> Receive:
        """A body in chunks says how long it is only when it is there."""
        received = 0

        async def receive_counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._body_bytes_max:
                raise ApiFailure(413, f"a body may have {self._body_bytes_max} bytes")
            return message

        return receive_counted

    def _cors(self, headers: dict[bytes, bytes]) -> list[tuple[bytes, bytes]]:
        origin = headers.get(b"origin")
        if origin is None or origin not in self._origins.allowed:
            return []
        return [(b"access-control-allow-origin", origin), (b"vary", b"origin")]


def level_of(scope: Scope) -> Level:
    return Level(scope.get(LEVEL, Level.ADMIN))


def token_in_query(scope: Scope) -> bytes | None:
    """Browsers can not add headers to a WebSocket or an event stream; there the query may carry the token."""
    query = scope.get("query_string", b"")
    if b"access_token=" not in query or scope.get("method", "GET") != "GET":
        return None
    found = parse_qs(query.decode("ascii", "replace")).get("access_token")
    return f"Bearer {found[0]}".encode() if found else None


def is_preflight(scope: Scope, headers: dict[bytes, bytes]) -> bool:
    return scope.get("method") == "OPTIONS" and b"origin" in headers


async def answer_preflight(send: Send) -> None:
    headers = [
        (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
        (b"access-control-allow-headers", b"authorization, content-type, x-request-id, last-event-id"),
        (b"access-control-max-age", PREFLIGHT_S),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def refuse(scope: Scope, send: Send, failure: ApiFailure) -> None:
    body = failure_body(failure.message, **failure.fields)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        *((name.encode(), value.encode()) for name, value in (failure.headers or {}).items()),
    ]
    kind = "http.response"
    if scope["type"] == "websocket":
        if "websocket.http.response" not in (scope.get("extensions") or {}):
            await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": failure.message})
            return
        kind = "websocket.http.response"
    elif failure.status == 413:
        # What is on its way would be taken for the next request.
        headers.append((b"connection", b"close"))
    await send({"type": f"{kind}.start", "status": failure.status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})
