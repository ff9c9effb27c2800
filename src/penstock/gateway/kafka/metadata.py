"""What the reader knows of the cluster, asked for when it is needed and again when it turns out to be wrong.

Whoever needs a topic while it is being asked for shares the answer. Any broker can be asked; the bootstrap
addresses are asked when no broker that is known answers.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any, Final

from penstock.gateway.kafka.cluster_view import (
    PreferredReplicas,
    Route,
    TopicView,
    brokers_in,
    is_outdated,
    route_to,
    topic_in,
)
from penstock.gateway.kafka.errors import (
    InvalidTopicError,
    KafkaUnavailableError,
    NotAllowedError,
    UnknownTopicError,
)
from penstock.gateway.kafka.nodes import Lane, Nodes
from penstock.gateway.kafka.questions import MetadataQuestion, Question
from penstock.peers.connection import PeerError
from penstock.peers.peers import Address
from penstock.types import ErrorCode

if TYPE_CHECKING:
    from penstock.gateway.kafka.reader_limits import ReaderLimits

KAFKA_PORT: Final = 9092


def parse_bootstrap(bootstrap: str) -> list[Address]:
    """`HOST:PORT,HOST:PORT`; an IPv6 address stands in brackets."""
    addresses = []
    for each in filter(None, (part.strip() for part in bootstrap.split(","))):
        host, colon, port = each.rpartition(":")
        if not colon or each.endswith("]"):
            host, port = each, str(KAFKA_PORT)
        if not port.isdecimal() or not 0 < int(port) < 65_536 or not host:
            raise ValueError(f"{each!r} is not an address of the form HOST:PORT")
        addresses.append(Address(host.strip("[]"), int(port)))
    if not addresses:
        raise ValueError("no bootstrap address")
    return addresses


class Metadata:
    def __init__(self, bootstrap: str, nodes: Nodes, limits: ReaderLimits) -> None:
        self._seeds = parse_bootstrap(bootstrap)
        self._nodes = nodes
        self._limits = limits
        self._brokers: dict[int, Address] = {}
        self._topics: dict[str, TopicView] = {}
        self._seen_at: dict[str, float] = {}
        self._refreshing: dict[str, asyncio.Task[TopicView]] = {}
        self.preferred = PreferredReplicas(limits.preferred_replica_s_max)

    def was_there(self, topic: str) -> bool:
        """Whether it was seen not long ago, and nobody has said since that it is gone for good."""
        return topic in self._seen_at and _now() - self._seen_at[topic] <= 2 * self._limits.metadata_age_s_max

    def forget(self, topic: str) -> None:
        self._topics.pop(topic, None)
        self._seen_at.pop(topic, None)

    async def topic(self, name: str, age_s_max: float) -> TopicView:
        known = self._topics.get(name)
        if known is not None and _now() - known.seen_at <= age_s_max:
            return known
        return await self.refresh(name)

    async def route(self, name: str, partition: int, *, of_leader: bool = False) -> Route:
        """Whom to ask. Raises NoLeaderError, PeerError, UnknownTopicError, UnknownPartitionError."""
        now = _now()
        topic = self._topics.get(name)
        if topic is None or partition not in topic.partitions:
            topic = await self.refresh(name)
        elif now - topic.seen_at > self._limits.metadata_age_s_max:
            self._refresh_task(name)
        preferred = None if of_leader else self.preferred.of(name, partition, now)
        return route_to(topic, partition, self._brokers, preferred)

    async def refresh(self, name: str) -> TopicView:
        """Ask the cluster. Raises PeerError if no broker answers, UnknownTopicError and the like."""
        return await asyncio.shield(self._refresh_task(name))

    def close(self) -> None:
        for task in self._refreshing.values():
            task.cancel()

    def _refresh_task(self, name: str) -> asyncio.Task[TopicView]:
        task = self._refreshing.get(name)
        if task is None:
            task = self._refreshing[name] = asyncio.create_task(self._ask(name))
            task.add_done_callback(lambda done: self._refreshed(name, done))
        return task

    def _refreshed(self, name: str, task: asyncio.Task[TopicView]) -> None:
        self._refreshing.pop(name, None)
        if not task.cancelled():
            task.exception()  # in the background nobody else looks at it

    async def _ask(self, name: str) -> TopicView:
        answer = await self.ask_anybody(MetadataQuestion((name,)))
        self._brokers = brokers_in(answer) or self._brokers
        (described,) = answer.topics
        if described.error_code not in (ErrorCode.none, ErrorCode.leader_not_available):
            self._topics.pop(name, None)
            raise _topic_error(name, described.error_code)
        told = topic_in(described, _now())
        known = self._topics.pop(name, None)
        topic = known if known is not None and is_outdated(known, told) else told
        self._remember(topic)
        return topic

    def _remember(self, topic: TopicView) -> None:
        self._topics[topic.name] = topic
        self._seen_at.pop(topic.name, None)
        self._seen_at[topic.name] = _now()
        while len(self._seen_at) > self._limits.topics_max:
            self.forget(next(iter(self._seen_at)))

    async def ask_anybody(self, question: Question) -> Any:
        """Brokers in any order, then the addresses that we began with. Raises PeerError."""
        brokers = list(self._brokers.values())
        random.shuffle(brokers)
        problem: Exception | None = None
        for address in [*brokers, *(each for each in self._seeds if each not in brokers)]:
            try:
                return await self._nodes.ask(address, Lane.CONTROL, question)
            except (PeerError, KafkaUnavailableError) as error:
                problem = error
        raise PeerError(f"no broker answers; the last: {problem}")


def _topic_error(name: str, code: ErrorCode) -> Exception:
    match code:
        case ErrorCode.unknown_topic_or_partition | ErrorCode.unknown_topic_id:
            return UnknownTopicError(name)
        case ErrorCode.invalid_topic_exception:
            return InvalidTopicError(f"{name!r} is not a name for a topic")
        case ErrorCode.topic_authorization_failed:
            return NotAllowedError(f"the cluster does not let the gateway read topic {name!r}")
    return PeerError(f"topic {name!r}: {code.name}")


def _now() -> float:
    return asyncio.get_running_loop().time()
