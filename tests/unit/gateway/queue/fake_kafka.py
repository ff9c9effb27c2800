"""A cluster in memory for gateways in one process: logs, and clients that take their time, each its own."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

from penstock.gateway.kafka.errors import (
    OffsetOutOfRangeError,
    TopicExistsError,
    UnknownTopicError,
)
from penstock.gateway.kafka.producer import Delivered
from penstock.kafka.records import Fetched, Offsets, ReadRecord


@dataclass
class FakeLog:
    start: int = 0
    records: list[ReadRecord] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.start + len(self.records)


class FakeCluster:
    """What is on disk. `chance` decides on delays, so that a run is its seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.topics: dict[str, list[FakeLog]] = {}

    async def pause(self) -> None:
        for _ in range(self.chance.randrange(8)):
            await asyncio.sleep(0)

    def log(self, topic: str, partition: int) -> FakeLog:
        if topic not in self.topics:
            raise UnknownTopicError(topic)
        return self.topics[topic][partition]


class FakeKafka:
    """As `Kafka`, as far as the queue's logs use it: `producer`, `reader` and `admin` are all in here."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.producer = self.reader = self.admin = self
        self.fetches = 0

    async def send(
        self,
        topic: str,
        value: bytes,
        *,
        partition: int = 0,
        headers: list[tuple[str, bytes]] | None = None,
    ) -> Delivered:
        await self.cluster.pause()
        log = self.cluster.log(topic, partition)
        offset = log.end
        log.records.append(ReadRecord(partition, offset, 0, None, value, tuple(headers or ())))
        await self.cluster.pause()
        return Delivered(partition, offset, 0)

    async def offsets(self, topic: str, partition: int) -> Offsets:
        await self.cluster.pause()
        log = self.cluster.log(topic, partition)
        told = Offsets(log.start, log.end)
        await self.cluster.pause()
        return told

    async def fetch(self, topic: str, partition: int, offset: int, **_: Any) -> Fetched:
        self.fetches += 1
        await self.cluster.pause()
        log = self.cluster.log(topic, partition)
        if not log.start <= offset <= log.end:
            raise OffsetOutOfRangeError(topic, partition, offset, log.start, log.end)
        first = offset - log.start
        found = log.records[first : first + self.cluster.chance.randrange(1, 6)]
        await self.cluster.pause()
        return Fetched(found, offset + len(found), log.end, log.start)

    async def create_topic(self, topic: str, *, partitions: int = 1, config: Any = None) -> None:
        await self.cluster.pause()
        if topic in self.cluster.topics:
            raise TopicExistsError(topic)
        self.cluster.topics[topic] = [FakeLog() for _ in range(partitions)]

    async def delete_records(self, topic: str, partition: int, before: int) -> None:
        await self.cluster.pause()
        log = self.cluster.log(topic, partition)
        if before > log.start:
            del log.records[: before - log.start]
            log.start = before

    async def partitions(self, topic: str, *, wait_s: float = 0.0) -> list[int]:
        await self.cluster.pause()
        return list(range(len(self.cluster.topics[topic])))

    def forget(self, topic: str) -> None:
        pass
