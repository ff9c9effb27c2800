"""The topics that positions go to: made when the first one comes, where nobody has made them before."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from penstock.gateway.kafka.errors import TopicExistsError, UnknownTopicError
from penstock.gateway.kafka.questions import MetadataQuestion
from penstock.traffic.topics import (
    SHARED_PLANS,
    name_number,
    quadrant_plan,
    replica_assignment,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.gateway.kafka.clients import Kafka
    from penstock.traffic.grid import Grid

CREATION_S_MAX: Final = 10.0


class TrafficTopics:
    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._seen: set[str] = set()
        """As many as quadrants of maps that this gateway has heard of, at most."""

    def forget(self, topic: str) -> None:
        """It has turned out to be gone."""
        self._seen.discard(topic)
        self._kafka.reader.forget(topic)

    async def ensure(self, topics: Iterable[str], grid: Grid) -> None:
        for topic in sorted(set(topics) - self._seen):
            try:
                await self._kafka.reader.partitions(topic)
            except UnknownTopicError:
                await self._create(topic, grid)
            self._seen.add(topic)

    async def _create(self, topic: str, grid: Grid) -> None:
        """All partitions of a quadrant are led by one broker, those of the next by another."""
        told = await self._kafka.reader.client.ask_anybody(MetadataQuestion(()), "the cluster")
        brokers = [broker.node_id for broker in told.brokers]
        names = grid.topics()
        plan = SHARED_PLANS.get(topic) or quadrant_plan(topic)
        first = names.index(topic) if topic in names else name_number(topic)
        with suppress(TopicExistsError):  # somebody was faster
            await self._kafka.admin.create_topic(
                topic,
                partitions=plan.partitions,
                assignment=replica_assignment(plan, brokers, first),
                config=plan.config,
            )
        self._kafka.reader.forget(topic)
        await self._kafka.reader.partitions(topic, wait_s=CREATION_S_MAX)
