"""One connection to another node, against a small server."""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING

import pytest

from penstock.peers.connection import FRAME_BYTES_MAX, PeerConnection, PeerDownError, PeerError
from tests.support.ports import free_port
from tests.unit.peers.server import Answer, Asked, SmallServer, answer_frame, echo, silence

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

LONG_S = 20.0


def request_frame(correlation_id: int, body: bytes) -> bytes:
    return struct.pack(">ihhi", 8 + len(body), 3, 1, correlation_id) + body


async def ask(connection: PeerConnection, body: bytes, timeout_s: float = LONG_S) -> bytes:
    """The body of the answer."""
    correlation_id = connection.next_correlation_id()
    answer = await connection.ask(correlation_id, [request_frame(correlation_id, body)], timeout_s)
    return bytes(answer)[4:]


def with_connection(answer: Answer, work: Callable[[PeerConnection, SmallServer], Awaitable[None]]) -> None:
    async def run() -> None:
        async with SmallServer(answer) as server, asyncio.timeout(LONG_S):
            connection = await PeerConnection.open("127.0.0.1", server.port, LONG_S)
            try:
                await work(connection, server)
            finally:
                connection.close("the test is over")

    asyncio.run(run())


def test_answers_come_to_whom_they_are_for() -> None:
    async def work(connection: PeerConnection, server: SmallServer) -> None:
        bodies = [b"%d" % number for number in range(50)]
        answers = await asyncio.gather(*(ask(connection, body) for body in bodies))
        assert answers == bodies
        assert [asked.correlation_id for asked in server.asked] == list(range(1, 51))

    with_connection(echo, work)


def test_answers_come_in_pieces_and_of_any_size() -> None:
    async def in_pieces(asked: Asked, writer: asyncio.StreamWriter) -> None:
        frame = answer_frame(asked.correlation_id, asked.frame[8:])
        for position in range(0, len(frame), max(1, len(frame) // 3)):
            writer.write(frame[position : position + max(1, len(frame) // 3)])
            await writer.drain()
            await asyncio.sleep(0)

    async def work(connection: PeerConnection, _server: SmallServer) -> None:
        for size in (0, 1, 1_000, 100_000, 3_000_000):
            assert await ask(connection, b"x" * size) == b"x" * size

    with_connection(in_pieces, work)


def test_no_answer_in_time_closes_the_connection() -> None:
    """The answers to later requests would come behind the one that is missing."""

    async def work(connection: PeerConnection, _server: SmallServer) -> None:
        later = asyncio.create_task(ask(connection, b"later"))
        with pytest.raises(PeerError, match=r"no answer in 0\.05 s") as caught:
            await ask(connection, b"a", timeout_s=0.05)
        assert not isinstance(caught.value, PeerDownError), "a process that is slow is not gone"
        assert connection.is_closed
        with pytest.raises(PeerError, match="no answer in"):
            await later
        with pytest.raises(PeerError, match="is closed"):
            await ask(connection, b"b")

    with_connection(silence, work)


def test_who_gives_up_closes_the_connection() -> None:
    async def work(connection: PeerConnection, server: SmallServer) -> None:
        asking, other = (asyncio.create_task(ask(connection, each)) for each in (b"a", b"b"))
        while len(server.asked) < 2:  # noqa: ASYNC110 nobody signals it
            await asyncio.sleep(0.001)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        with pytest.raises(PeerError, match="given up"):
            await other
        assert connection.is_closed

    with_connection(silence, work)


def test_a_connection_that_breaks_fails_who_waits() -> None:
    async def break_off(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async def work(connection: PeerConnection, _server: SmallServer) -> None:
        with pytest.raises(PeerError):
            await ask(connection, b"a")
        assert connection.is_closed

    with_connection(break_off, work)


def test_the_end_of_the_stream_fails_who_waits() -> None:
    async def hang_up(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def work(connection: PeerConnection, _server: SmallServer) -> None:
        with pytest.raises(PeerError, match="the connection was closed"):
            await ask(connection, b"a")
        assert connection.is_closed

    with_connection(hang_up, work)


@pytest.mark.parametrize(
    ("garbage", "complaint"),
    [
        (answer_frame(999, b""), "an answer to another request"),
        (struct.pack(">i", 2) + b"ab", "without a correlation id"),
        (struct.pack(">i", -1), "-1"),
        (struct.pack(">i", FRAME_BYTES_MAX + 1), f"{FRAME_BYTES_MAX + 1}"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", f"{int.from_bytes(b'HTTP')}"),
    ],
)
def test_what_makes_no_sense_closes_the_connection(garbage: bytes, complaint: str) -> None:
    async def nonsense(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(garbage)

    async def work(connection: PeerConnection, _server: SmallServer) -> None:
        with pytest.raises(PeerError, match=complaint):
            await ask(connection, b"a")
        assert connection.is_closed

    with_connection(nonsense, work)


def test_an_answer_that_nobody_asked_for_closes_the_connection() -> None:
    async def twice(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(answer_frame(asked.correlation_id, b"a") * 2)

    async def work(connection: PeerConnection, _server: SmallServer) -> None:
        assert await ask(connection, b"x") == b"a"
        while not connection.is_closed:  # noqa: ASYNC110 nobody signals it
            await asyncio.sleep(0.001)

    with_connection(twice, work)


def test_nobody_listens() -> None:
    async def run() -> None:
        with pytest.raises(PeerDownError, match="connection refused"):
            await PeerConnection.open("127.0.0.1", free_port(), LONG_S)

    asyncio.run(run())


def test_a_name_that_does_not_exist_says_nothing_of_the_process() -> None:
    async def run() -> None:
        with pytest.raises(PeerError) as caught:
            await PeerConnection.open("no.such.host.invalid", 1, LONG_S)
        assert not isinstance(caught.value, PeerDownError)

    asyncio.run(run())


def test_correlation_ids_stay_positive() -> None:
    connection = PeerConnection("a:1")
    connection._correlation_id = 2**31 - 2
    assert [connection.next_correlation_id() for _ in range(3)] == [2**31 - 1, 0, 1]
