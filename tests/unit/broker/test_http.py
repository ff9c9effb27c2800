from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.http import (
    HttpError,
    HttpLimits,
    HttpServer,
    Request,
    Response,
    parse_head,
    text_response,
)
from penstock.hosts import KnownHosts
from penstock.listening import bind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

GET = b"GET /path?query HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_a_request() -> None:
    assert parse_head(b"GET /a/b?c=d HTTP/1.1\r\nHost: x") == Request("GET", "/a/b", True, b"x")


@pytest.mark.parametrize(
    ("head", "keep_alive"),
    [
        (b"GET / HTTP/1.1\r\nhost: x\r\nConnection: Close", False),
        (b"GET / HTTP/1.0", False),
        (b"GET / HTTP/1.0\r\nconnection: keep-alive", True),
    ],
)
def test_who_keeps_the_connection(head: bytes, keep_alive: bool) -> None:
    assert parse_head(head).keep_alive is keep_alive


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"", HTTPStatus.BAD_REQUEST),
        (b"hello", HTTPStatus.BAD_REQUEST),
        (b"GET  / HTTP/1.1", HTTPStatus.BAD_REQUEST),
        (b"G(T / HTTP/1.1\r\nhost: x", HTTPStatus.BAD_REQUEST),
        (b"GET http://x/ HTTP/1.1\r\nhost: x", HTTPStatus.BAD_REQUEST),
        (b"GET /\xff HTTP/1.1\r\nhost: x", HTTPStatus.BAD_REQUEST),
        (b"GET /\x00 HTTP/1.1\r\nhost: x", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/2.0\r\nhost: x", HTTPStatus.HTTP_VERSION_NOT_SUPPORTED),
        (b"GET / HTTP/1.1", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\nhost x", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\nhost : x", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\nhost: x\r\n folded", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\nhost: x" + b"\r\na: b" * 200, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
        (b"POST / HTTP/1.1\r\nhost: x", HTTPStatus.METHOD_NOT_ALLOWED),
        (b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: 5", HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
        (b"GET / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked", HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    ],
)
def test_what_is_no_request_is_refused(head: bytes, status: HTTPStatus) -> None:
    with pytest.raises(HttpError) as caught:
        parse_head(head)
    assert caught.value.status is status


@given(st.binary(max_size=300))
def test_any_bytes_are_a_request_or_an_error(head: bytes) -> None:
    try:
        parse_head(head)
    except HttpError:
        pass


def echo(request: Request) -> Response:
    if request.path == "/missing":
        raise HttpError(HTTPStatus.NOT_FOUND, "not here")
    return text_response(request.path)


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def served(
    session: Callable[[Callable[[], Awaitable[Streams]]], Awaitable[None]],
    limits: HttpLimits | None = None,
    hosts: KnownHosts | None = None,
) -> None:
    """Runs `session(connect)` against a server that answers with the path it was asked for."""

    async def main() -> None:
        listening = bind("127.0.0.1", 0)
        address = listening.getsockname()
        server = HttpServer(echo, limits, hosts)
        await server.listen(listening)
        writers = []

        async def connect() -> Streams:
            streams = await asyncio.open_connection(*address)
            writers.append(streams[1])
            return streams

        try:
            await asyncio.wait_for(session(connect), 10)
        finally:
            for writer in writers:
                writer.close()
            await server.close()
            await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)

    asyncio.run(main())


async def read_response(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    status_line, *lines = head.strip().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    body = await reader.readexactly(int(headers["content-length"]))
    return int(status_line.split()[1]), headers, body


def test_requests_on_one_connection_whole_and_byte_by_byte_and_pipelined() -> None:
    async def session(connect: Callable[[], Awaitable[Streams]]) -> None:
        reader, writer = await connect()
        writer.write(GET)
        assert (await read_response(reader))[::2] == (200, b"/path")
        for index in range(len(GET)):
            writer.write(GET[index : index + 1])
            await writer.drain()
            await asyncio.sleep(0)
        assert (await read_response(reader))[::2] == (200, b"/path")
        writer.write(GET * 3)
        for _ in range(3):
            assert (await read_response(reader))[::2] == (200, b"/path")

    served(session)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        (b"localhost:8080", 200),
        (b"127.0.0.1:8080", 200),
        (b"[::1]", 200),
        (b"192.0.2.1", 200),
        (b"Node-1.Example:8080", 200),
        (b"evil.example:8080", 403),
        (b"localhost.evil.example", 403),
        (b"", 403),
    ],
)
def test_a_name_that_was_pointed_at_this_machine(host: bytes, status: int) -> None:
    async def session(connect: Callable[[], Awaitable[Streams]]) -> None:
        reader, writer = await connect()
        writer.write(b"GET /path HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
        assert (await read_response(reader))[0] == status

    served(session, hosts=KnownHosts.of("node-1.example"))


def test_head_has_no_body() -> None:
    async def session(connect: Callable[[], Awaitable[Streams]]) -> None:
        reader, writer = await connect()
        writer.write(b"HEAD /abc HTTP/1.0\r\n\r\n")
        answer = await reader.read()
        assert b"content-length: 4\r\n" in answer
        assert answer.endswith(b"\r\n\r\n")

    served(session)


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        (b"HEAD /missing HTTP/1.1\r\nhost: localhost\r\n\r\n", b"404"),
        (b"HEAD / HTTP/1.1\r\n\r\n", b"400"),
        (b"HEAD / HTTP/1.1\r\nhost: " + b"x" * HttpLimits().head_bytes_max, b"431"),
    ],
)
def test_head_has_no_body_when_it_fails(request_head: bytes, status: bytes) -> None:
    async def session(connect: Callable[[], Awaitable[Streams]]) -> None:
        reader, writer = await connect()
        writer.write(request_head)
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 " + status)
        assert answer.endswith(b"\r\n\r\n")

    served(session)


def test_an_error_is_json_and_ends_the_connection() -> None:
    async def session(connect: Callable[[], Awaitable[Streams]]) -> None:
        reader, writer = await connect()
        writer.write(GET.replace(b"/path", b"/missing"))
        status, headers, body = await read_response(reader)
        assert (status, headers["connection"]) == (404, "close")
        assert json.loads(body) == {"status": "failure", "message": "not here"}
        assert await reader.read() == b""

    served(session)


def test_a_head_that_does_not_end_is_refused() -> None:
    async def session(connect: Callable[[], Awaitable[Streams]]) -> None:
        reader, writer = await connect()
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\na: " + b"x" * HttpLimits().head_bytes_max)
        assert (await read_response(reader))[0] == 431

    served(session)


def test_over_the_limit_of_connections_the_one_idle_for_longest_goes() -> None:
    async def session(connect: Callable[[], Awaitable[Streams]]) -> None:
        first = await connect()
        second = await connect()
        for reader, writer in (second, first):
            writer.write(GET)
            assert (await read_response(reader))[0] == 200
        third = await connect()
        third[1].write(GET)
        assert (await read_response(third[0]))[0] == 200
        assert await second[0].read() == b""
        first[1].write(GET)
        assert (await read_response(first[0]))[0] == 200

    served(session, HttpLimits(connections_max=2))


def test_a_peer_that_sends_nothing_is_dropped() -> None:
    async def session(connect: Callable[[], Awaitable[Streams]]) -> None:
        reader, writer = await connect()
        writer.write(b"GET /")
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        assert reader.at_eof() or reader.exception() is not None

    served(session, HttpLimits(wait_seconds_max=0.05))
