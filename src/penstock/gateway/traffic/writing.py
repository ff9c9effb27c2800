"""Positions into the topics of their quadrants, and word of who contributed.

Messages of one request are handed over together and waited for together. If the brokers take only some of
them, the request fails and may be repeated as it is: positions with the same car and ts count once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from penstock.gateway.kafka.errors import KafkaUnavailableError, ProducerReplacedError, UnknownTopicError
from penstock.gateway.kafka.planned_topics import ATTEMPTS_MAX, PlannedTopics
from penstock.traffic.participation import contribution_value
from penstock.traffic.topics import CONTRIBUTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.gateway.kafka.clients import Kafka
    from penstock.gateway.traffic.participants import Participants
    from penstock.gateway.traffic.positions import Placed
    from penstock.traffic.grid import Grid


class Message(NamedTuple):
    topic: str
    value: bytes
    key: bytes


class PositionWriter:
    def __init__(self, kafka: Kafka, participants: Participants) -> None:
        self._kafka = kafka
        self._participants = participants
        self._topics = PlannedTopics(kafka)

    async def write(self, grid: Grid, positions: Sequence[Placed], now_ms: int) -> None:
        """Returns when all in-sync replicas have them."""
        messages = [
            Message(topic, position.to_json(), position.car.encode()) for topic, position in positions
        ]
        cars = {position.car for _, position in positions}
        due = {car for car in cars if self._participants.is_due(car, now_ms)}
        value = contribution_value(now_ms)
        messages += [Message(CONTRIBUTIONS, value, car.encode()) for car in due]
        for _ in range(ATTEMPTS_MAX):
            await self._topics.ensure({message.topic for message in messages}, grid.plan_of_topic)
            messages = await self._send(messages)
            if not messages:
                break
        else:
            raise KafkaUnavailableError(f"{messages[0].topic} comes and goes")
        for car in cars:
            self._participants.contributed(car, now_ms, is_recorded=car in due)

    async def _send(self, messages: Sequence[Message]) -> list[Message]:
        """Those whose topics have been deleted since they were seen, and those that a producer took with it
        when it was replaced: repeated positions count once. Raises what else goes wrong."""
        send = self._kafka.producer.send
        sent = [send(message.topic, message.value, key=message.key) for message in messages]
        reports = await asyncio.gather(*sent, return_exceptions=True)
        missed: list[Message] = []
        for message, report in zip(messages, reports, strict=True):
            if isinstance(report, UnknownTopicError):
                self._topics.forget(message.topic)
                missed.append(message)
            elif isinstance(report, ProducerReplacedError):
                missed.append(message)
            elif isinstance(report, BaseException):
                raise report
        return missed
