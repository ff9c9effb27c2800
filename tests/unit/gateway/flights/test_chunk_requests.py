"""Bodies of chunks: read to their end or to the limit, and room for several of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.flights.chunks import CHUNK_BYTES_MAX
from penstock.gateway.errors import ApiFailure
from penstock.gateway.flights.chunk_requests import (
    ChunkTooLarge,
    announced_size,
    file_name,
    job_id,
    read_chunk,
)
from penstock.gateway.flights.room import BodyRoom
from penstock.gateway.queue.hot_paths import ClientGoneError

PIECE = b"x" * 65_536


class Body:
    def __init__(self, *pieces: bytes | None) -> None:
        """None: the client goes away."""
        self.pieces = list(pieces)
        self.taken = 0

    async def receive(self) -> dict[str, Any]:
        piece = self.pieces.pop(0)
        self.taken += 1
        if piece is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece, "more_body": bool(self.pieces)}


def read(*pieces: bytes | None) -> bytes:
    return asyncio.run(read_chunk(Body(*pieces).receive))


def test_a_body_in_pieces() -> None:
    assert read(b"one") == b"one"
    assert read(b"a", b"", b"bc") == b"abc"
    assert read(b"") == b""
    assert len(read(*[PIECE] * 8)) == CHUNK_BYTES_MAX


def test_nothing_is_read_beyond_the_limit() -> None:
    body = Body(*[PIECE] * 100)
    with pytest.raises(ChunkTooLarge) as raised:
        asyncio.run(read_chunk(body.receive))
    assert (raised.value.status, raised.value.headers) == (413, {"connection": "close"})
    assert body.taken == 9


def test_a_client_that_goes_away() -> None:
    with pytest.raises(ClientGoneError):
        read(b"half", None, None)


def test_the_size_that_is_announced() -> None:
    assert announced_size({"headers": []}) == 0
    assert announced_size({"headers": [(b"content-length", b"%d" % CHUNK_BYTES_MAX)]}) == CHUNK_BYTES_MAX
    with pytest.raises(ChunkTooLarge):
        announced_size({"headers": [(b"host", b"x"), (b"content-length", b"%d" % (CHUNK_BYTES_MAX + 1))]})


def test_names() -> None:
    assert job_id("11111111-1111-1111-1111-11111111111A") == "11111111-1111-1111-1111-11111111111a"
    for name in ("", "7", None, 7):
        with pytest.raises(ApiFailure, match="UUID"):
            job_id(name)
    assert file_name("airports") == "airports"
    with pytest.raises(ApiFailure, match="hotels"):
        file_name("hotels")


def test_room_for_bodies() -> None:
    room = BodyRoom(2 * CHUNK_BYTES_MAX)
    with room.hold("a", 0) as first, room.hold("b", CHUNK_BYTES_MAX) as second, room.hold("c", 1) as third:
        assert (first, second, third) == (True, True, False)
        assert room.bytes == 2 * CHUNK_BYTES_MAX
    assert room.bytes == 0
    with BodyRoom(1, 1).hold("a", 0) as alone:
        assert alone, "one is always taken"


def test_a_job_has_its_share_of_the_room() -> None:
    room = BodyRoom(100, 20)
    with room.hold("a", 15) as first, room.hold("a", 6) as second, room.hold("b", 20) as other:
        assert (first, second, other) == (True, False, True)
        assert room.bytes == 35
    with room.hold("a", 20) as again:
        assert again
    assert room.bytes == 0
