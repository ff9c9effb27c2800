"""A cluster in memory for what follows topics: as `LogReader`, as far as that is used."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from penstock.gateway.kafka.errors import (
    KafkaUnavailableError,
    OffsetOutOfRangeError,
    TopicRecreatedError,
    UnknownTopicError,
)
from penstock.kafka.records import Fetched, Offsets, ReadRecord

Content = tuple[bytes | None, bytes | None]


@dataclass
class FakeTopic:
    topic_id: UUID
    partitions: list[list[ReadRecord | None]]
    """None is at offsets that are not for readers, as of markers of transactions."""
    start: int = 0
    listened: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self, partition: int) -> int:
        return len(self.partitions[partition])


class FakeReader:
    def __init__(self) -> None:
        self.client = self
        self.topics: dict[str, FakeTopic] = {}
        self.is_away = False
        self.fetched: list[int] = []
        """Offsets at which somebody has fetched."""
        self.refusals = 0
        """How often somebody has asked while nobody answers."""
        self._ids = itertools.count(1)

    def create(self, topic: str, partitions: int = 1) -> None:
        self._wake()
        self.topics[topic] = FakeTopic(UUID(int=next(self._ids)), [[] for _ in range(partitions)])

    def delete(self, topic: str) -> None:
        self._wake()
        del self.topics[topic]

    def write(self, topic: str, *contents: Content, partition: int = 0, timestamp_ms: int = 10**12) -> None:
        log = self.topics[topic].partitions[partition]
        for key, value in contents:
            log.append(ReadRecord(partition, len(log), timestamp_ms, key, value))
        self._wake()

    def write_marker(self, topic: str) -> None:
        self.topics[topic].partitions[0].append(None)
        self._wake()

    def trim(self, topic: str, before: int) -> None:
        self.topics[topic].start = before
        self._wake()

    def go_away(self) -> None:
        self.is_away = True
        self._wake()

    async def topic_id(self, topic: str) -> UUID:
        return self._topic(topic).topic_id

    async def partitions(self, topic: str) -> list[int]:
        return list(range(len(self._topic(topic).partitions)))

    async def offsets(self, topic: str, partition: int) -> Offsets:
        found = self._topic(topic)
        return Offsets(found.start, found.end(partition))

    async def fetch(self, topic: str, partition: int, offset: int, **_: Any) -> Fetched:
        found = self._topic(topic)
        end = found.end(partition)
        if not found.start <= offset <= end:
            raise OffsetOutOfRangeError(topic, partition, offset, found.start, end)
        self.fetched.append(offset)
        fetched = found.partitions[partition][offset : offset + 3]
        records = [record for record in fetched if record is not None]
        return Fetched(records, offset + len(fetched), end, found.start)

    async def follow(self, topic: str, partition: int, offset: int) -> AsyncIterator[list[ReadRecord]]:
        topic_id = self._topic(topic).topic_id
        while True:
            found = self._topic(topic)
            if found.topic_id != topic_id:
                raise TopicRecreatedError(topic, partition, offset, 0, 0)
            fetched = await self.fetch(topic, partition, offset)
            if fetched.records:
                yield fetched.records
            if fetched.next_offset == offset:
                await found.listened.wait()
            offset = fetched.next_offset

    async def insist(
        self, topic: str, _partition: int, ask: Callable[[Any], Awaitable[int]], *, of_leader: bool
    ) -> int:
        assert of_leader
        self._topic(topic)
        return await ask(None)

    async def list_offset(self, _route: Any, topic: str, partition: int, timestamp: int) -> int:
        log = self._topic(topic).partitions[partition]
        records = (record for record in log if record is not None)
        return next((record.offset for record in records if record.timestamp_ms >= timestamp), -1)

    def _topic(self, topic: str) -> FakeTopic:
        if self.is_away:
            self.refusals += 1
            raise KafkaUnavailableError("nobody answers")
        if topic not in self.topics:
            raise UnknownTopicError(topic)
        return self.topics[topic]

    def _wake(self) -> None:
        for topic in self.topics.values():
            topic.listened.set()
            topic.listened.clear()
