"""Just enough HTTP/1.1 for an endpoint that is only read: GET and HEAD, no bodies, bounded everything.

A node must start fast and stay small, so its own endpoint does without a web framework. `parse_head` is the
pure half: the bytes of a request's head in, a Request or an HttpError out. `HttpServer` is the other half:
it collects bytes up to the empty line, answers if it was asked by a name it knows, and keeps the connection
for the next request. Whatever else a peer sends is answered with one error and a closed connection.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from penstock.hosts import KnownHosts

if TYPE_CHECKING:
    import socket

HEADERS_MAX: Final = 100
END_OF_HEAD: Final = b"\r\n\r\n"
HEAD: Final = b"HEAD "
"""How a request begins whose answer must not have a body, be it an error."""
TOKEN: Final = frozenset(b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    head_bytes_max: int = 16 * 1024
    connections_max: int = 100
    """Over it, the connection that has been waiting longest is closed: idle ones shut out nobody."""
    wait_seconds_max: float = 30.0
    """For a whole head to arrive, and for an answer to be taken, counted from the previous answer."""


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    """Without the query."""
    keep_alive: bool
    host: bytes | None = None
    """None in HTTP/1.0, which browsers do not speak."""


@dataclass(frozen=True, slots=True)
class Response:
    status: HTTPStatus
    body: bytes
    content_type: str


class HttpError(Exception):
    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


Handler = Callable[[Request], Response]


def json_response(value: Any, status: HTTPStatus = HTTPStatus.OK) -> Response:
    body = json.dumps(value, ensure_ascii=False).encode() + b"\n"
    return Response(status, body, "application/json")


def text_response(text: str, content_type: str = "text/plain; charset=utf-8") -> Response:
    return Response(HTTPStatus.OK, text.encode(), content_type)


def failure(status: HTTPStatus, message: str) -> Response:
    return json_response({"status": "failure", "message": message}, status)


def parse_head(head: bytes) -> Request:
    """Read the head of a request, without its final empty line; HttpError says what is wrong with it."""
    request_line, *lines = head.split(b"\r\n")
    parts = request_line.split(b" ")
    if len(parts) != 3 or not parts[0] or not TOKEN.issuperset(parts[0]):
        raise HttpError(HTTPStatus.BAD_REQUEST, "this is not an HTTP request")
    method, target, version = parts
    if version not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise HttpError(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "only HTTP/1.0 and HTTP/1.1 are spoken here")
    if not target.startswith(b"/") or not target.isascii() or not target.decode().isprintable():
        raise HttpError(HTTPStatus.BAD_REQUEST, "the target must be a path")
    headers = parse_headers(lines)
    if headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers:
        raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "requests with a body are not taken here")
    if version == b"HTTP/1.1" and b"host" not in headers:
        raise HttpError(HTTPStatus.BAD_REQUEST, "the Host header is missing")
    if method not in (b"GET", b"HEAD"):
        raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are served here")
    connection = headers.get(b"connection", b"").lower()
    keep_alive = connection != b"close" if version == b"HTTP/1.1" else connection == b"keep-alive"
    return Request(method.decode(), target.decode().partition("?")[0], keep_alive, headers.get(b"host"))


def parse_headers(lines: list[bytes]) -> dict[bytes, bytes]:
    """Headers by lower-case name."""
    if len(lines) > HEADERS_MAX:
        raise HttpError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "too many headers")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name or not TOKEN.issuperset(name):
            raise HttpError(HTTPStatus.BAD_REQUEST, "a header is malformed")
        headers[name.lower()] = value.strip()
    return headers


def encode_response(response: Response, *, keep_alive: bool, head_only: bool = False) -> bytes:
    status = response.status
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"content-type: {response.content_type}",
        f"content-length: {len(response.body)}",
        "cache-control: no-store",
        f"connection: {'keep-alive' if keep_alive else 'close'}",
    ]
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        lines.append("allow: GET, HEAD")
    head = "\r\n".join(lines).encode() + END_OF_HEAD
    return head if head_only else head + response.body


class HttpServer:
    def __init__(
        self, handler: Handler, limits: HttpLimits | None = None, hosts: KnownHosts | None = None
    ) -> None:
        self._handler = handler
        self._hosts = hosts or KnownHosts()
        self.limits = limits or HttpLimits()
        self._connections: dict[HttpConnection, None] = {}
        """In the order of their last requests; who never sent one counts from its arrival."""
        self._server: asyncio.Server | None = None

    def answer(self, request: Request) -> Response:
        if request.host is not None and not self._hosts.knows(request.host):
            raise HttpError(HTTPStatus.FORBIDDEN, "that is not a name of this node; `http_names` adds names")
        return self._handler(request)

    async def listen(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: HttpConnection(self, loop), sock=listening)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.close()

    def admit(self, connection: HttpConnection) -> None:
        if len(self._connections) >= self.limits.connections_max:
            oldest = next(iter(self._connections))
            self.forget(oldest)
            oldest.abort()
        self._connections[connection] = None

    def used(self, connection: HttpConnection) -> None:
        if connection in self._connections:
            self._connections[connection] = self._connections.pop(connection)

    def forget(self, connection: HttpConnection) -> None:
        self._connections.pop(connection, None)


class HttpConnection(asyncio.Protocol):
    """One peer. Requests are answered one after the other, and only while the peer reads the answers."""

    def __init__(self, server: HttpServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._writable = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's has its methods, not its type
        self._server.admit(self)
        self._restart_timer()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the loop calls it so
        self._server.forget(self)
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._answer()

    def pause_writing(self) -> None:
        self._writable = False
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._writable = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
            self._answer()

    def close(self) -> None:
        """Answers already written still go out, unless the peer does not take them."""
        if self._transport is not None:
            self._transport.close()
            self._restart_timer()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _answer(self) -> None:
        head_bytes_max = self._server.limits.head_bytes_max
        while self._writable and self._transport is not None and not self._transport.is_closing():
            end = self._received.find(END_OF_HEAD)
            if end < 0 and len(self._received) <= head_bytes_max:
                return
            if not 0 <= end <= head_bytes_max:
                status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
                answer = failure(status, f"a head of more than {head_bytes_max} bytes")
                self._send(answer, keep_alive=False, head_only=self._received.startswith(HEAD))
                return
            head = bytes(self._received[:end])
            del self._received[: end + len(END_OF_HEAD)]
            self._answer_one(head)

    def _answer_one(self, head: bytes) -> None:
        self._restart_timer()
        self._server.used(self)
        head_only = head.startswith(HEAD)
        try:
            request = parse_head(head)
            response = self._server.answer(request)
        except HttpError as error:
            self._send(failure(error.status, str(error)), keep_alive=False, head_only=head_only)
        else:
            self._send(response, keep_alive=request.keep_alive, head_only=head_only)

    def _send(self, response: Response, *, keep_alive: bool, head_only: bool = False) -> None:
        assert self._transport is not None
        self._transport.write(encode_response(response, keep_alive=keep_alive, head_only=head_only))
        if not keep_alive:
            self.close()

    def _restart_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._timer = self._loop.call_later(self._server.limits.wait_seconds_max, self._transport.abort)
