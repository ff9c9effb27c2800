"""Chunks, ends of files and requests onto their topics. Each returns when all in-sync replicas have it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.flights.records import (
    MANY_STOPOVERS,
    FastestOf,
    Request,
    chunk_headers,
    end_headers,
    request_value,
)
from penstock.flights.topics import FILE_TOPICS, PLANS, REQUESTS
from penstock.gateway.kafka.errors import KafkaUnavailableError, ProducerReplacedError, UnknownTopicError
from penstock.gateway.kafka.planned_topics import ATTEMPTS_MAX, PlannedTopics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.gateway.kafka.clients import Kafka


class FlightsWriter:
    def __init__(self, kafka: Kafka) -> None:
        self._producer = kafka.producer
        self._topics = PlannedTopics(kafka)

    async def chunk(self, job: str, file: str, message: int, body: bytes) -> None:
        await self._write(FILE_TOPICS[file], job, body, chunk_headers(message))

    async def end(self, job: str, file: str, messages: int) -> None:
        await self._write(FILE_TOPICS[file], job, None, end_headers(messages))

    async def request(self, job: str, request: Request, fastest_of: FastestOf = MANY_STOPOVERS) -> None:
        if request is Request.CREATE:
            await self._topics.ensure(PLANS, PLANS.__getitem__)  # whoever may read soon finds them
        await self._write(REQUESTS, job, request_value(request, fastest_of))

    async def _write(
        self, topic: str, job: str, value: bytes | None, headers: Sequence[tuple[str, bytes]] = ()
    ) -> None:
        """Repeated if the topic was deleted since it was seen, or if the producer took the record with
        it when it was replaced: all of these records count once, however often they are written."""
        for _ in range(ATTEMPTS_MAX):
            await self._topics.ensure((topic,), PLANS.__getitem__)
            try:
                await self._producer.send(topic, value, key=job.encode(), headers=headers)
                return
            except UnknownTopicError:
                self._topics.forget(topic)
            except ProducerReplacedError:
                continue
        raise KafkaUnavailableError(f"{topic} comes and goes")
