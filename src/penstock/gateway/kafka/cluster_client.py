"""Asking the cluster: whoever serves a partition, through elections and restarts, up to the limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

from penstock.gateway.kafka.cluster_view import NoLeaderError, Route
from penstock.gateway.kafka.errors import NotAllowedError, UnknownTopicError
from penstock.gateway.kafka.metadata import Metadata
from penstock.gateway.kafka.nodes import Lane, Nodes
from penstock.gateway.kafka.patience import Patience
from penstock.gateway.kafka.questions import EARLIEST, LATEST, READ_COMMITTED, OffsetQuestion, Question
from penstock.kafka.records import Offsets
from penstock.peers.connection import PeerError
from penstock.types import ErrorCode

if TYPE_CHECKING:
    from penstock.gateway.kafka.reader_limits import ReaderLimits

T = TypeVar("T")

MOVES_MAX: Final = 2
"""From replica to replica, without a pause."""
NOT_ALLOWED: Final = frozenset({ErrorCode.topic_authorization_failed, ErrorCode.cluster_authorization_failed})


class NotNowError(Exception):
    """A broker could not answer at this moment; somebody else may, or the same one later."""


class ElsewhereError(Exception):
    """Another replica should be asked, at once."""


class ClusterClient:
    def __init__(self, bootstrap: str, client_id: str, limits: ReaderLimits) -> None:
        self.limits = limits
        self._nodes = Nodes(client_id, limits)
        self._metadata = Metadata(bootstrap, self._nodes, limits)

    def close(self) -> None:
        self._metadata.close()
        self._nodes.close()

    def forget(self, topic: str) -> None:
        """Whoever has just created or deleted a topic knows better than what is remembered of it."""
        self._metadata.forget(topic)

    async def partitions(self, topic: str, *, wait_s: float = 0.0) -> list[int]:
        """Raises UnknownTopicError, if the topic has not appeared after `wait_s`."""
        patience = self._patience(topic, topic, missing_s_min=wait_s)
        while True:
            try:
                view = await self._metadata.topic(topic, self.limits.partitions_age_s_max)
                return sorted(view.partitions)
            except (PeerError, UnknownTopicError) as error:
                await self._wait(patience, topic, error)

    async def topic_id(self, topic: str, partition: int) -> UUID | None:
        async def of_route(route: Route) -> UUID | None:
            return route.topic_id

        return await self.insist(topic, partition, of_route)

    async def offsets(self, topic: str, partition: int) -> Offsets:
        async def of_leader(route: Route) -> Offsets:
            start = await self.list_offset(route, topic, partition, EARLIEST)
            return Offsets(start, await self.list_offset(route, topic, partition, LATEST))

        return await self.insist(topic, partition, of_leader, of_leader=True)

    async def list_offset(
        self, route: Route, topic: str, partition: int, timestamp: int, isolation_level: int = READ_COMMITTED
    ) -> int:
        question = OffsetQuestion(topic, partition, route.leader_epoch, timestamp, isolation_level)
        answer = await self.ask(route, question)
        told = only_partition(each.partitions for each in answer.topics)
        check(told.error_code, topic)
        return int(told.offset)

    async def ask(
        self, route: Route, question: Question, lane: Lane = Lane.CONTROL, wait_s: float = 0.0
    ) -> Any:
        """Raises PeerError."""
        return await self._nodes.ask(route.address, lane, question, wait_s=wait_s)

    async def ask_anybody(self, question: Question, what: str) -> Any:
        """Any broker can answer this. Raises KafkaUnavailableError."""
        patience = Patience(what, self.limits, missing_s_max=0.0)
        while True:
            try:
                return await self._metadata.ask_anybody(question)
            except PeerError as error:
                await patience.after(error)

    def prefer(self, topic: str, partition: int, node_id: int) -> None:
        """Read from that replica for a while."""
        now = asyncio.get_running_loop().time()
        self._metadata.preferred.prefer(topic, partition, node_id, now)

    def prefer_leader(self, topic: str, partition: int) -> None:
        self._metadata.preferred.forget(topic, partition)

    async def insist(
        self, topic: str, partition: int, ask: Callable[[Route], Awaitable[T]], *, of_leader: bool = False
    ) -> T:
        """Ask whoever serves the partition. Raises KafkaUnavailableError, UnknownTopicError and what `ask`
        raises, except for what passes by itself: PeerError, NoLeaderError, NotNowError, ElsewhereError."""
        patience = self._patience(f"{topic}-{partition}", topic)
        moves = 0
        while True:
            try:
                return await ask(await self._metadata.route(topic, partition, of_leader=of_leader))
            except ElsewhereError as error:
                moves += 1
                if moves <= MOVES_MAX:
                    continue
                problem: Exception = error
            except (PeerError, NoLeaderError, NotNowError, UnknownTopicError) as error:
                problem = error
            self.prefer_leader(topic, partition)
            await self._wait(patience, topic, problem)
            with suppress(PeerError, UnknownTopicError):  # the next attempt tells
                await self._metadata.refresh(topic)

    async def _wait(self, patience: Patience, topic: str, problem: Exception) -> None:
        try:
            await patience.after(problem)
        except UnknownTopicError:
            self.forget(topic)  # whoever asks next need not wait for it
            raise

    def _patience(self, what: str, topic: str, *, missing_s_min: float = 0.0) -> Patience:
        missing_s = self.limits.topic_gone_s_max if self._metadata.was_there(topic) else 0.0
        return Patience(what, self.limits, missing_s_max=max(missing_s, missing_s_min))


def only_partition(topics: Any) -> Any:
    """Of an answer to a question about one partition: `topics` are the partitions of each topic."""
    try:
        ((only,),) = topics
    except ValueError as error:
        raise NotNowError("an answer about something else") from error
    return only


def check(code: ErrorCode, topic: str) -> None:
    if code in NOT_ALLOWED:
        raise NotAllowedError(f"the cluster does not let the gateway use topic {topic!r}")
    if code is not ErrorCode.none:
        raise NotNowError(code.name)
