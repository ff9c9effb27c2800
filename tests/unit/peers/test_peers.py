"""The other nodes by id, against small servers."""

from __future__ import annotations

import asyncio
import io
from typing import TYPE_CHECKING, Any

import pytest
from kio.index import load_response_schema
from kio.serial import entity_writer

from penstock.peers.connection import PeerDownError, PeerError
from penstock.peers.peers import Address, Lane, Peers
from penstock.wire.codec import read_request_header
from penstock.wire.primitives import DecodeError
from penstock.wire.shapes import lower
from tests.support.ports import free_port
from tests.unit.peers.server import Asked, SmallServer, answer_frame, echo, silence

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.unit.peers.server import Answer

ALLOCATE = (67, 0)
LONG_S = 20.0


async def allocated(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """A block of producer ids that begins with the broker's epoch."""
    header = read_request_header(asked.frame)
    assert (header.api_key, header.api_version, header.client_id) == (*ALLOCATE, "penstock-node-9")
    response_type = load_response_schema(*ALLOCATE)
    body = {"producer_id_start": 4000, "producer_id_len": len(asked.frame)}
    out = io.BytesIO()
    entity_writer(response_type)(out, lower(body, response_type, frozenset(body)))
    writer.write(answer_frame(asked.correlation_id, b"\0" + out.getvalue()))


class Places(dict[int, Address]):
    """Where each node is at this moment."""

    def put(self, node_id: int, server: SmallServer) -> None:
        self[node_id] = Address("127.0.0.1", server.port)


def with_peers(answer: Answer, work: Callable[[Peers, SmallServer, Places], Awaitable[None]]) -> None:
    """The server is node 1."""

    async def run() -> None:
        places = Places()
        peers = Peers("penstock-node-9", places.get)
        async with SmallServer(answer) as server, asyncio.timeout(LONG_S):
            places.put(1, server)
            try:
                await work(peers, server, places)
            finally:
                peers.close()

    asyncio.run(run())


async def ask(peers: Peers, node_id: int = 1, lane: Lane = Lane.CONTROL, timeout_s: float = LONG_S) -> Any:
    return await peers.ask(node_id, lane, *ALLOCATE, {"broker_id": 9}, timeout_s=timeout_s)


def test_a_request_and_its_answer() -> None:
    async def work(peers: Peers, _server: SmallServer, _places: Places) -> None:
        assert (await ask(peers)).producer_id_start == 4000

    with_peers(allocated, work)


def test_each_lane_has_one_connection() -> None:
    async def work(peers: Peers, server: SmallServer, _places: Places) -> None:
        await asyncio.gather(*(ask(peers, lane=lane) for lane in (Lane.CONTROL, Lane.QUORUM) * 10))
        assert server.connections == 2

    with_peers(allocated, work)


def test_a_lane_does_not_wait_for_another() -> None:
    async def work(peers: Peers, _server: SmallServer, _places: Places) -> None:
        async def only_control(asked: Asked, writer: asyncio.StreamWriter) -> None:
            if _server.connections > 1:
                await allocated(asked, writer)

        _server._answer = only_control
        waiting = asyncio.create_task(ask(peers, lane=Lane.REPLICAS))
        while not _server.asked:  # noqa: ASYNC110 nobody signals it
            await asyncio.sleep(0.001)
        assert (await ask(peers)).producer_id_start == 4000
        assert not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    with_peers(silence, work)


def test_after_a_break_the_next_request_connects_again() -> None:
    async def work(peers: Peers, server: SmallServer, _places: Places) -> None:
        async def break_off(_asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.transport.abort()

        server._answer = break_off
        with pytest.raises(PeerError):
            await ask(peers)
        server._answer = allocated
        assert (await ask(peers)).producer_id_start == 4000
        assert server.connections == 2

    with_peers(allocated, work)


def test_a_node_that_moved_is_asked_at_its_new_place() -> None:
    async def work(peers: Peers, server: SmallServer, places: Places) -> None:
        await ask(peers)
        async with SmallServer(allocated) as other:
            places.put(1, other)
            await ask(peers)
            assert (server.connections, other.connections) == (1, 1)

    with_peers(allocated, work)


def test_who_is_not_known_or_not_there() -> None:
    async def work(peers: Peers, _server: SmallServer, places: Places) -> None:
        with pytest.raises(PeerError, match="node 5 is not known") as unknown:
            await ask(peers, 5)
        assert not isinstance(unknown.value, PeerDownError)
        places[5] = Address("127.0.0.1", free_port())
        for _ in range(2):
            with pytest.raises(PeerDownError):
                await ask(peers, 5)

    with_peers(allocated, work)


def test_a_probe_tells_who_listens() -> None:
    async def work(peers: Peers, _server: SmallServer, places: Places) -> None:
        await peers.probe(1)
        with pytest.raises(PeerError, match="node 5 is not known"):
            await peers.probe(5)
        places[5] = Address("127.0.0.1", free_port())
        with pytest.raises(PeerDownError):
            await peers.probe(5)

    with_peers(silence, work)


def test_an_answer_that_cannot_be_read() -> None:
    async def cut_short(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(answer_frame(asked.correlation_id, b"\0\0"))

    async def work(peers: Peers, _server: SmallServer, _places: Places) -> None:
        with pytest.raises(DecodeError):
            await ask(peers)

    with_peers(cut_short, work)


@pytest.mark.parametrize("is_flexible", [False, True])
def test_a_request_is_sent_on_as_it_came(is_flexible: bool) -> None:
    async def work(peers: Peers, server: SmallServer, _places: Places) -> None:
        answer = await peers.forward(1, 19, 7, is_flexible, memoryview(b"the body"), timeout_s=LONG_S)
        (asked,) = server.asked
        header = read_request_header(asked.frame)
        assert (header.api_key, header.api_version, header.client_id) == (19, 7, "penstock-node-9")
        assert asked.frame[header.end :] == (b"\0the body" if is_flexible else b"the body")
        assert bytes(answer).endswith(b"the body")

    with_peers(echo, work)


def test_closing_fails_who_waits() -> None:
    async def work(peers: Peers, server: SmallServer, _places: Places) -> None:
        waiting = asyncio.create_task(ask(peers))
        while not server.asked:  # noqa: ASYNC110 nobody signals it
            await asyncio.sleep(0.001)
        peers.close()
        with pytest.raises(PeerError, match="this node stops"):
            await waiting

    with_peers(silence, work)
