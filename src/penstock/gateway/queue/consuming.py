"""Consuming: find the next message, claim it, and hand it out once the claim holds.

A message leaves the gateway only when its claim is committed and no other claim was there before it. So what
dies, and when, does not matter: a message is handed out to one request, and a client that did not see the
answer repeats the request with its id, at any gateway.

Nobody has to be asked whether the position is up to date. One that is not leads to a claim that is lost, and
each lost claim means that somebody else's was granted.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.gateway.errors import ApiFailure
from penstock.gateway.kafka.errors import KafkaUnavailableError, OffsetOutOfRangeError, UnknownTopicError
from penstock.gateway.queue.counting import Counting, PartitionKey
from penstock.gateway.queue.keyed_locks import KeyedLocks
from penstock.gateway.queue.position_logs import AllRegistered, PositionLogs
from penstock.gateway.queue.positions import Claim, Handed, Verdict
from penstock.gateway.queue.read_ahead import ReadAhead, RunKey
from penstock.gateway.queue.shared_log import BEHIND_WAIT_MS

if TYPE_CHECKING:
    from penstock.gateway.kafka.admin import TopicIdentity
    from penstock.gateway.kafka.clients import Kafka
    from penstock.gateway.queue.topics import Topics
    from penstock.gateway.settings import GatewaySettings
    from penstock.kafka.records import ReadRecord


class Consuming:
    def __init__(
        self, kafka: Kafka, topics: Topics, settings: GatewaySettings, registered: AllRegistered
    ) -> None:
        limits = settings.limits
        self._kafka = kafka
        self._topics = topics
        self._positions = PositionLogs(kafka, limits.checkpoint_records, registered)
        self._locks = KeyedLocks()
        self._counting = Counting(kafka)
        self._read_ahead = ReadAhead(limits.read_ahead_bytes_max)
        self._fetch_bytes = limits.read_ahead_bytes
        self._seconds_max = limits.kafka_seconds_max
        self._reads_followers = settings.rack is not None

    async def close(self) -> None:
        await self._positions.close()

    async def consume(self, consumer: int, topic: str, request_id: str | None) -> ReadRecord | None:
        """The next message for the consumer, or the one that the request has got before; None at the end."""
        try:
            async with asyncio.timeout(self._seconds_max), self._locks.hold(consumer):
                return await self._consume(consumer, topic, request_id)
        except UnknownTopicError:
            self._topics.forget(topic)
            raise
        except TimeoutError:
            raise KafkaUnavailableError("the brokers did not answer in time") from None

    async def _consume(self, consumer: int, topic: str, request_id: str | None) -> ReadRecord | None:
        log = self._positions.of(consumer)
        await log.load()
        while True:
            identity = await self._topics.get(topic)
            state = log.of(consumer)
            if request_id is not None and (handed := state.requests.get(request_id)) is not None:
                return await self._read_again(topic, handed)
            # The state may move on while we are reading; a claim says what it was based on.
            was, positions = state.topic_id, state.positions_in(identity.topic_id)
            record = await self._next(consumer, topic, identity, positions, state.last_partition + 1)
            if record is None:
                return None
            expected = positions.get(record.partition)
            claim = Claim(
                consumer, request_id, was, identity.topic_id, record.partition, expected, record.offset
            )
            verdict, granted = await log.claim(claim)
            if verdict is Verdict.GRANTED:
                return record
            if verdict is Verdict.REPEATED and granted is not None:
                return await self._read_again(topic, granted)

    async def size(self, consumer: int, topic: str, at_most: int | None) -> int:
        """How many messages lie before the consumer; `at_most` are counted, or all."""
        try:
            async with asyncio.timeout(self._seconds_max):
                return await self._size(consumer, topic, at_most)
        except TimeoutError:
            raise KafkaUnavailableError("there is more than could be counted in time; ask again") from None

    async def _size(self, consumer: int, topic: str, at_most: int | None) -> int:
        log = self._positions.of(consumer)
        await log.catch_up()
        identity = await self._topics.get(topic)
        state = log.of(consumer)
        position_of = {
            partition: state.position(identity.topic_id, partition)
            for partition in range(identity.partitions)
        }
        if at_most is None:
            is_stable = await self._counting.is_stable(topic)
            return sum(
                await asyncio.gather(
                    *(
                        self._counting.all(
                            topic, PartitionKey(identity.topic_id, partition), position, is_stable=is_stable
                        )
                        for partition, position in position_of.items()
                    )
                )
            )
        found = 0
        for partition, position in position_of.items():
            found += await self._counting.at_least(topic, partition, position, at_most - found)
            if found == at_most:
                break
        return found

    async def _next(
        self, consumer: int, topic: str, identity: TopicIdentity, positions: dict[int, int], turn: int
    ) -> ReadRecord | None:
        """The next message of any partition, beginning with the one whose turn it is."""
        partitions = [(turn + i) % identity.partitions for i in range(identity.partitions)]
        keys = [RunKey(consumer, identity.topic_id, partition) for partition in partitions]
        now = asyncio.get_running_loop().time()
        for key in keys:
            position = positions.get(key.partition, 0)
            if (record := self._read_ahead.next(key, position, now)) is not None:
                return record
        if len(keys) == 1:
            return await self._read(topic, keys[0], positions.get(0, 0))
        found = await asyncio.gather(
            *(self._read(topic, key, positions.get(key.partition, 0)) for key in keys)
        )
        return next((record for record in found if record is not None), None)

    async def _read(self, topic: str, key: RunKey, position: int) -> ReadRecord | None:
        """The first message at the position, or of the whole partition if it does not hold the position."""
        reader = self._kafka.reader
        wait_ms = 0
        while True:
            try:
                fetched = await reader.fetch(
                    topic, key.partition, position, max_bytes=self._fetch_bytes, wait_ms=wait_ms
                )
            except OffsetOutOfRangeError as error:
                position = error.start
                continue
            if fetched.records:
                break
            if fetched.next_offset == position:
                if not await self._is_behind(topic, key.partition, position):
                    return None
                wait_ms = BEHIND_WAIT_MS
            position = fetched.next_offset
        self._read_ahead.put(key, position, fetched, asyncio.get_running_loop().time())
        return fetched.records[0]

    async def _is_behind(self, topic: str, partition: int, position: int) -> bool:
        """Whether the replica that had nothing is a follower that has not heard of the newest messages."""
        if not self._reads_followers:
            return False
        return position < (await self._kafka.reader.offsets(topic, partition)).end

    async def _read_again(self, topic: str, handed: Handed) -> ReadRecord:
        try:
            fetched = await self._kafka.reader.fetch(topic, handed.partition, handed.offset, max_bytes=1)
        except OffsetOutOfRangeError:
            fetched = None
        if fetched is None or not fetched.records or fetched.records[0].offset != handed.offset:
            raise ApiFailure(410, "that request was answered before, and its message has been deleted since")
        return fetched.records[0]
