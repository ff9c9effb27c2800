"""Topics of an application: made when they are first needed, where nobody has made them before."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from penstock.gateway.kafka.errors import TopicExistsError, UnknownTopicError
from penstock.gateway.kafka.questions import MetadataQuestion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.client.topic_plan import TopicPlan
    from penstock.gateway.kafka.clients import Kafka

CREATION_S_MAX: Final = 10.0
ATTEMPTS_MAX: Final = 4
"""To write to a topic that may be deleted meanwhile. That alone may cost two: the producer finds it gone, and
is then replaced itself."""


class PlannedTopics:
    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._seen: set[str] = set()

    def forget(self, topic: str) -> None:
        """It has turned out to be gone."""
        self._seen.discard(topic)
        self._kafka.reader.forget(topic)

    async def ensure(self, topics: Iterable[str], plan_of: Callable[[str], TopicPlan]) -> None:
        for topic in [each for each in topics if each not in self._seen]:
            try:
                await self._kafka.reader.partitions(topic)
            except UnknownTopicError:
                await self._create(plan_of(topic))
            self._seen.add(topic)

    async def _create(self, plan: TopicPlan) -> None:
        told = await self._kafka.reader.client.ask_anybody(MetadataQuestion(()), "the cluster")
        brokers = sorted(broker.node_id for broker in told.brokers)
        replication_factor = await self._replication_factor(brokers)
        with suppress(TopicExistsError):  # somebody was faster
            await self._kafka.admin.create_topic(
                plan.name,
                partitions=plan.partitions,
                assignment=plan.assignment(brokers, replication_factor),
                config=plan.config,
            )
        self._kafka.reader.forget(plan.name)
        await self._kafka.reader.partitions(plan.name, wait_s=CREATION_S_MAX)

    async def _replication_factor(self, brokers: list[int]) -> int:
        return await self._kafka.admin.default_replication_factor(brokers) if len(brokers) > 1 else 1
