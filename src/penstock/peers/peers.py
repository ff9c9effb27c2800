"""The other nodes by id: where they are, and a connection to each for each kind of work.

Answers on one connection come in the order of the requests, and a fetch may wait for long. So each kind of
work has a lane, a connection of its own. A connection that breaks is opened again by the next request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.peers.connection import PeerConnection, PeerError
from penstock.wire.exchange import frame_of, load_exchange

if TYPE_CHECKING:
    from penstock.wire.batch import Buffer
    from penstock.wire.shapes import Body

CONNECT_S_MAX: Final = 1.0
NODE_CLIENT_ID: Final = "penstock-node-"
"""How nodes call themselves to each other, followed by their id."""


class Lane(Enum):
    QUORUM = "quorum"
    METADATA = "metadata"
    """Fetches of the metadata log."""
    REPLICAS = "replicas"
    """Fetches of partitions."""
    CONTROL = "control"
    """What a broker asks the controller for, such as changes of in-sync sets."""
    HEARTBEATS = "heartbeats"
    """Nothing may hold these up."""
    FORWARD = "forward"
    TRANSACTIONS = "transactions"
    """Questions to a coordinator, for which a producer waits."""
    MARKERS = "markers"
    """Ends of transactions; each waits until it is committed."""
    LATE_MARKERS = "late markers"
    """Those for partitions in which that took too long before: they hold up no others."""
    REPAIRS = "repairs"
    """Reads of what is damaged here, and digests to compare with."""
    POSITIONS = "positions"
    """What subscriptions have got, asked for now and then; the answer waits until a write is committed."""


class Address(NamedTuple):
    host: str
    port: int


class Peers:
    def __init__(self, name: str, find: Callable[[int], Address | None]) -> None:
        """`find` tells where a node is at this moment, if it is known at all."""
        self._name = name
        self._find = find
        self._connections: dict[tuple[int, Lane], tuple[Address, PeerConnection]] = {}
        self._opening: dict[tuple[int, Lane], asyncio.Lock] = {}

    async def ask(
        self, node_id: int, lane: Lane, api_key: int, version: int, body: Body | bytes, *, timeout_s: float
    ) -> Any:
        """The answer's body. Raises PeerError, or PeerDownError if the node's process is gone."""
        exchange = load_exchange(api_key, version)
        connection = await self._connection(node_id, lane)
        correlation_id = connection.next_correlation_id()
        frame = exchange.request(correlation_id, self._name, body)
        return exchange.response(await connection.ask(correlation_id, [frame], timeout_s))

    async def forward(
        self,
        node_id: int,
        api_key: int,
        version: int,
        is_flexible: bool,
        body: memoryview,
        *,
        timeout_s: float,
    ) -> memoryview:
        """Send on a request as it came; the answer after its correlation id."""
        connection = await self._connection(node_id, Lane.FORWARD)
        correlation_id = connection.next_correlation_id()
        buffers: list[Buffer] = [frame_of(api_key, version, correlation_id, self._name, is_flexible, body)]
        return memoryview(await connection.ask(correlation_id, buffers, timeout_s))[4:]

    async def probe(self, node_id: int) -> None:
        """Whether somebody listens there; PeerDownError or PeerError if not."""
        address = self._find(node_id)
        if address is None:
            raise PeerError(f"node {node_id} is not known")
        connection = await PeerConnection.open(*address, CONNECT_S_MAX)
        connection.close("it was only a probe")

    def close(self) -> None:
        for _, connection in self._connections.values():
            connection.close("this node stops")
        self._connections.clear()

    async def _connection(self, node_id: int, lane: Lane) -> PeerConnection:
        address = self._find(node_id)
        if address is None:
            raise PeerError(f"node {node_id} is not known")
        key = (node_id, lane)
        async with self._opening.setdefault(key, asyncio.Lock()):
            known = self._connections.get(key)
            if known is not None:
                if known[0] == address and not known[1].is_closed:
                    return known[1]
                known[1].close("the node has moved")
            connection = await PeerConnection.open(*address, CONNECT_S_MAX)
            self._connections[key] = (address, connection)
            return connection
