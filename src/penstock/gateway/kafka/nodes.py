"""Connections to brokers, by address.

A broker answers one connection's requests in their order. So that nothing waits behind something slow there
is a lane for short questions and one for fetches that do not wait, both shared by all readers; a fetch that
waits for news has a connection of its own, which serves the next one afterwards.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from penstock.gateway.kafka.questions import (
    API_VERSIONS,
    Question,
    Served,
    VersionsQuestion,
    choose_version,
    served_versions,
)
from penstock.peers.connection import PeerConnection, PeerError
from penstock.wire.exchange import load_exchange
from penstock.wire.primitives import DecodeError

if TYPE_CHECKING:
    from penstock.gateway.kafka.reader_limits import ReaderLimits
    from penstock.peers.peers import Address

NOTHING_SERVED: Final[Served] = {API_VERSIONS.key: (0, 0)}


class Lane(Enum):
    CONTROL = "control"
    FETCH = "fetch"


class Channel:
    """A connection to a broker that has told which versions it serves."""

    def __init__(self, connection: PeerConnection, address: Address, client_id: str) -> None:
        self._connection = connection
        self._name = f"{address.host}:{address.port}"
        self._client_id = client_id
        self._served = NOTHING_SERVED

    @classmethod
    async def open(cls, address: Address, client_id: str, limits: ReaderLimits) -> Channel:
        connection = await PeerConnection.open(*address, limits.connect_s_max)
        channel = cls(connection, address, client_id)
        try:
            channel._served = served_versions(await channel.ask(VersionsQuestion(), limits.answer_s_max))
        except BaseException:
            channel.close()
            raise
        return channel

    @property
    def is_closed(self) -> bool:
        return self._connection.is_closed

    async def ask(self, question: Question, timeout_s: float) -> Any:
        """The answer's body. Raises PeerError."""
        version = choose_version(question.api, self._served, self._name)
        exchange = load_exchange(question.api.key, version)
        correlation_id = self._connection.next_correlation_id()
        frame = exchange.request(correlation_id, self._client_id, question.body(version))
        answer = await self._connection.ask(correlation_id, [frame], timeout_s)
        try:
            return exchange.response(answer)
        except DecodeError as error:
            self.close()
            raise PeerError(f"{self._name}: {error}") from error

    def close(self) -> None:
        self._connection.close(f"{self._name}: the connection was closed")


class Nodes:
    def __init__(self, client_id: str, limits: ReaderLimits) -> None:
        self._client_id = client_id
        self._limits = limits
        self._shared: dict[tuple[Address, Lane], Channel] = {}
        self._opening: dict[tuple[Address, Lane], asyncio.Lock] = {}
        self._idle: dict[Address, list[Channel]] = {}
        self._asking: set[asyncio.Task[Any]] = set()

    async def ask(self, address: Address, lane: Lane, question: Question, *, wait_s: float = 0.0) -> Any:
        """On the lane's shared connection, or alone on one if the broker is to wait. Raises PeerError."""
        if wait_s > 0:
            return await self._ask_alone(address, question, wait_s + self._limits.answer_s_max)
        channel = await self._shared_channel(address, lane)
        # To give up a question would close the connection, and with it the questions of others.
        task = asyncio.create_task(channel.ask(question, self._limits.answer_s_max))
        self._asking.add(task)
        task.add_done_callback(self._asked)
        return await asyncio.shield(task)

    def close(self) -> None:
        for channel in (*self._shared.values(), *(each for idle in self._idle.values() for each in idle)):
            channel.close()
        self._shared.clear()
        self._idle.clear()

    def _asked(self, task: asyncio.Task[Any]) -> None:
        self._asking.discard(task)
        if not task.cancelled():
            task.exception()  # whoever asked may be gone, and nobody else looks at it

    async def _ask_alone(self, address: Address, question: Question, timeout_s: float) -> Any:
        idle = self._idle.setdefault(address, [])
        while idle:
            channel = idle.pop()
            if not channel.is_closed:
                break
        else:
            channel = await Channel.open(address, self._client_id, self._limits)
        try:
            answer = await channel.ask(question, timeout_s)
        except BaseException:
            channel.close()
            raise
        if len(idle) < self._limits.idle_polls_max:
            idle.append(channel)
        else:
            channel.close()
        return answer

    async def _shared_channel(self, address: Address, lane: Lane) -> Channel:
        key = (address, lane)
        known = self._shared.get(key)
        if known is not None and not known.is_closed:
            return known
        async with self._opening.setdefault(key, asyncio.Lock()):
            known = self._shared.get(key)
            if known is None or known.is_closed:
                known = self._shared[key] = await Channel.open(address, self._client_id, self._limits)
            return known
