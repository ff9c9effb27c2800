"""The topic queue as its endpoints see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.gateway.errors import ApiFailure
from penstock.gateway.queue.consuming import Consuming
from penstock.gateway.queue.last_used import Life
from penstock.gateway.queue.producing import Producing
from penstock.gateway.queue.registry import Kind, Registration, Registry
from penstock.gateway.queue.topics import Topics

if TYPE_CHECKING:
    from penstock.gateway.kafka.clients import Kafka
    from penstock.gateway.settings import GatewaySettings
    from penstock.kafka.records import ReadRecord


class TopicQueue:
    def __init__(self, kafka: Kafka, settings: GatewaySettings) -> None:
        self._kafka = kafka
        self._registry = Registry(kafka, Life(settings.limits.registration_idle_ms_max))
        self._topics = Topics(kafka, settings.limits.topics_max)
        self._producing = Producing(kafka, self._topics, settings.limits)
        self._consuming = Consuming(kafka, self._topics, settings, self._registry.all_known)

    async def close(self) -> None:
        await self._consuming.close()

    async def topics(self) -> list[str]:
        return list(await self._kafka.admin.topics())

    async def create_topic(self, topic: str) -> None:
        await self._topics.create(topic)

    async def register(self, kind: Kind, topic: str, *, may_create: bool = True) -> int:
        """A topic that is missing is created by who may; 403 for others."""
        await self._topics.ensure(topic, may_create=may_create)
        return await self._registry.register(kind, topic)

    async def produce(
        self, producer: int, topic: str, message: str, request_id: str | None
    ) -> tuple[int, int]:
        require(await self._registry.use(producer), Kind.PRODUCER, producer, topic)
        return await self._producing.produce(producer, topic, message.encode(), request_id)

    async def consume(self, consumer: int, topic: str, request_id: str | None) -> ReadRecord | None:
        await self._require_consumer(consumer, topic)
        return await self._consuming.consume(consumer, topic, request_id)

    async def size(self, consumer: int, topic: str, at_most: int | None) -> int:
        await self._require_consumer(consumer, topic)
        return await self._consuming.size(consumer, topic, at_most)

    async def _require_consumer(self, consumer: int, topic: str) -> None:
        require(await self._registry.use(consumer), Kind.CONSUMER, consumer, topic)


def require(registration: Registration | None, kind: Kind, identity: int, topic: str) -> None:
    """404 for an id that is nobody's, or of the other kind; 403 for one of another topic."""
    if registration is None or registration.kind != kind:
        raise ApiFailure(404, f"there is no {kind} {identity}")
    if registration.topic != topic:
        raise ApiFailure(403, f"{kind} {identity} is not registered for topic {topic!r}")
