"""Producing: straight to the log, and once only for a request with an id."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from penstock.gateway.queue.produce_index import ProduceIndex

if TYPE_CHECKING:
    from penstock.gateway.kafka.clients import Kafka
    from penstock.gateway.queue.topics import Topics
    from penstock.gateway.settings import GatewayLimits


class Producing:
    def __init__(self, kafka: Kafka, topics: Topics, limits: GatewayLimits) -> None:
        self._kafka = kafka
        self._topics = topics
        self._offsets_max = limits.produce_index_offsets
        self._indexes_max = limits.produce_index_partitions_max
        self._indexes: OrderedDict[tuple[str, int], ProduceIndex] = OrderedDict()

    async def produce(
        self, producer: int, topic: str, value: bytes, request_id: str | None
    ) -> tuple[int, int]:
        """The partition and the offset. A producer's messages all go to one partition, and stay in order."""
        partition = producer % (await self._topics.get(topic)).partitions
        if request_id is None:
            delivered = await self._kafka.producer.send(topic, value, partition=partition)
            return partition, delivered.offset
        request = f"{producer}:{request_id}".encode()
        return partition, await self._index(topic, partition).send(request, value)

    def _index(self, topic: str, partition: int) -> ProduceIndex:
        key = (topic, partition)
        found = self._indexes.get(key)
        if found is None:
            found = self._indexes[key] = ProduceIndex(self._kafka, topic, partition, self._offsets_max)
            self._forget_oldest()
        else:
            self._indexes.move_to_end(key)
        return found

    def _forget_oldest(self) -> None:
        idle = [key for key, index in self._indexes.items() if index.is_idle]
        for key in idle[: max(0, len(self._indexes) - self._indexes_max)]:
            del self._indexes[key]
