"""The topics of the service: made when the first job is asked for, where nobody has made them before."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from penstock.flights.topics import PLANS
from penstock.gateway.kafka.errors import TopicExistsError, UnknownTopicError
from penstock.gateway.kafka.questions import MetadataQuestion
from penstock.traffic.topics import REPLICAS, name_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.gateway.kafka.clients import Kafka
    from penstock.traffic.topics import TopicPlan

CREATION_S_MAX: Final = 10.0


class FlightsTopics:
    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._seen: set[str] = set()

    def forget(self, topic: str) -> None:
        """It has turned out to be gone."""
        self._seen.discard(topic)
        self._kafka.reader.forget(topic)

    async def ensure(self, topics: Iterable[str]) -> None:
        for topic in [each for each in topics if each not in self._seen]:
            try:
                await self._kafka.reader.partitions(topic)
            except UnknownTopicError:
                await self._create(PLANS[topic])
            self._seen.add(topic)

    async def _create(self, plan: TopicPlan) -> None:
        told = await self._kafka.reader.client.ask_anybody(MetadataQuestion(()), "the cluster")
        brokers = [broker.node_id for broker in told.brokers]
        with suppress(TopicExistsError):  # somebody was faster
            await self._kafka.admin.create_topic(
                plan.name,
                partitions=plan.partitions,
                assignment=spread(plan, brokers),
                config=plan.config,
            )
        self._kafka.reader.forget(plan.name)
        await self._kafka.reader.partitions(plan.name, wait_s=CREATION_S_MAX)


def spread(plan: TopicPlan, brokers: Sequence[int]) -> list[list[int]]:
    """The replicas of each partition, led by one broker after the other.

    >>> from penstock.flights.topics import PLANS
    >>> spread(PLANS["flights.airports"], [1, 2])
    [[2, 1], [1, 2], [2, 1], [1, 2]]
    """
    ordered = sorted(brokers)
    first, count = name_number(plan.name), min(REPLICAS, len(ordered))
    return [
        [ordered[(first + partition + step) % len(ordered)] for step in range(count)]
        for partition in range(plan.partitions)
    ]
