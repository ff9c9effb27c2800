"""Random access to the logs of a cluster, for any number of readers at once.

A consumer of librdkafka has one position per partition and threads of its own; the gateway has thousands of
readers, each with its own positions, and one thread. So reading is written on the protocol itself: Metadata,
ListOffsets and Fetch, with versions negotiated, on Penstock as on Apache Kafka.

What readers see is committed: nothing after the last stable offset, nothing of aborted transactions, no
control batches. Leaders that change, brokers that restart and metadata that is out of date are a delay;
after `unavailable_s_max` it is a KafkaUnavailableError. With a rack, reading moves to a follower in that rack
when the leader recommends one, and back to the leader when the follower fails (KIP-392).

Topics are fetched by name. That a topic was deleted and created again is noticed by its id in the metadata:
at once if brokers refuse the old one, else within `metadata_age_s_max`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from penstock.gateway.kafka.cluster_client import (
    ClusterClient,
    ElsewhereError,
    NotNowError,
    check,
    only_partition,
)
from penstock.gateway.kafka.errors import OffsetOutOfRangeError, TopicRecreatedError
from penstock.gateway.kafka.nodes import Lane
from penstock.gateway.kafka.questions import FetchQuestion
from penstock.gateway.kafka.reader_limits import ReaderLimits
from penstock.gateway.kafka.tail import Tail
from penstock.kafka.committed import Aborted, DamagedError, open_fetched
from penstock.types import ErrorCode

if TYPE_CHECKING:
    from penstock.gateway.kafka.cluster_view import Route
    from penstock.kafka.records import Fetched, Offsets, ReadRecord, Undecodable

log = logging.getLogger(__name__)

NAMED_MAX: Final = 10_000
"""Batches that were named in the log as passed over, and are not named again."""


class LogReader:
    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = "penstock-gateway",
        rack: str | None = None,
        limits: ReaderLimits | None = None,
    ) -> None:
        self.client = ClusterClient(bootstrap, client_id, limits or ReaderLimits())
        """Open as long as the reader is."""
        self._rack = rack or ""
        self._tails: dict[tuple[str, int], Tail] = {}
        self._named: dict[tuple[str, int, int], None] = {}
        self._fetching = asyncio.Semaphore(self.client.limits.fetches_max)

    async def start(self) -> None:
        """Nothing to do: brokers are connected to when somebody reads, and may come later than we do."""

    async def close(self) -> None:
        for tail in self._tails.values():
            tail.stop()
        self._tails.clear()
        self.client.close()

    def forget(self, topic: str) -> None:
        """Whoever has just created or deleted a topic knows better than what is remembered of it."""
        self.client.forget(topic)

    async def partitions(self, topic: str, *, wait_s: float = 0.0) -> list[int]:
        """Raises UnknownTopicError, if the topic has not appeared after `wait_s`."""
        return await self.client.partitions(topic, wait_s=wait_s)

    async def topic_id(self, topic: str) -> UUID | None:
        """None from brokers that do not tell. Raises UnknownTopicError."""
        return await self.client.topic_id(topic, 0)

    async def offsets(self, topic: str, partition: int) -> Offsets:
        return await self.client.offsets(topic, partition)

    async def fetch(
        self, topic: str, partition: int, offset: int, *, max_bytes: int | None = None, wait_ms: int = 0
    ) -> Fetched:
        """What is at `offset`, up to about `max_bytes`; at the end of the log, what comes within `wait_ms`.

        A follower in our rack may know a little less than the leader, so what lies before `offsets().end` can
        be missing for a moment.
        Raises OffsetOutOfRangeError, UnknownTopicError, KafkaUnavailableError.
        """
        return await self._fetch(topic, partition, offset, max_bytes, wait_ms, topic_id=None)

    async def follow(self, topic: str, partition: int, offset: int) -> AsyncGenerator[list[ReadRecord], None]:
        """All records from `offset` on, as they come, for ever; the lists are shared and not to be changed.

        Raises what `fetch` raises, and TopicRecreatedError. To be closed with `contextlib.aclosing`.
        """
        key = (topic, partition)
        topic_id = await self.client.topic_id(topic, partition)
        tail = self._tails.get(key)
        if tail is None or tail.has_failed:
            tail = self._tails[key] = self._new_tail(topic, partition, topic_id)
        tail.followers += 1
        try:
            is_at_end = False
            while True:
                if (cached := tail.chunks.after(offset)) is not None:
                    records, offset = cached
                elif tail.has_come_to(offset) or (is_at_end and offset > tail.position):
                    await tail.wait()
                    continue
                else:
                    fetched = await self._fetch(topic, partition, offset, None, 0, topic_id)
                    records, is_at_end = fetched.records, fetched.next_offset == offset
                    offset = fetched.next_offset
                    if is_at_end:
                        tail.start(offset)
                        if offset < tail.position:  # the replica that we asked is behind the tail's
                            await asyncio.sleep(self.client.limits.backoff_s_min)
                if records:
                    yield records
        finally:
            tail.followers -= 1
            if tail.followers == 0:
                tail.stop()
                if self._tails.get(key) is tail:
                    del self._tails[key]

    def _new_tail(self, topic: str, partition: int, topic_id: UUID | None) -> Tail:
        async def poll(offset: int) -> Fetched:
            return await self._fetch(
                topic, partition, offset, None, self.client.limits.poll_wait_ms, topic_id
            )

        return Tail(poll, self.client.limits.tail_bytes_max)

    async def _fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        max_bytes: int | None,
        wait_ms: int,
        topic_id: UUID | None,
    ) -> Fetched:
        bytes_max = self.client.limits.fetch_bytes_max if max_bytes is None else max_bytes

        async def ask(route: Route) -> Fetched:
            if topic_id is not None and route.topic_id not in (None, topic_id):
                offsets = await self.offsets(topic, partition)
                raise TopicRecreatedError(topic, partition, offset, offsets.start, offsets.end)
            question = FetchQuestion(
                topic, partition, route.leader_epoch, offset, bytes_max, wait_ms, self._rack
            )
            if wait_ms > 0:
                return await self._fetch_from(route, question)
            async with self._fetching:
                return await self._fetch_from(route, question)

        return await self.client.insist(topic, partition, ask)

    async def _fetch_from(self, route: Route, question: FetchQuestion) -> Fetched:
        topic, partition = question.topic, question.partition
        answer = await self.client.ask(route, question, Lane.FETCH, wait_s=question.wait_ms / 1000)
        check(answer.error_code, topic)
        data = only_partition(each.partitions for each in answer.responses)
        if data.error_code is ErrorCode.offset_out_of_range:
            await self._refused(route, question)
        check(data.error_code, topic)
        if data.preferred_read_replica not in (-1, route.node_id) and not data.records:
            self.client.prefer(topic, partition, data.preferred_read_replica)
            raise ElsewhereError("the leader recommends a follower")
        fetched = opened(partition, question.offset, data)
        for batch in fetched.undecodable:
            self._name_undecodable(topic, partition, batch)
        return fetched

    def _name_undecodable(self, topic: str, partition: int, batch: Undecodable) -> None:
        """Once, however many read it."""
        place = (topic, partition, batch.offset)
        if place in self._named:
            return
        if len(self._named) >= NAMED_MAX:
            del self._named[next(iter(self._named))]
        self._named[place] = None
        log.warning("passed over the batch at offset %d of %s-%d: %s", batch.offset, *place[:2], batch.reason)

    async def _refused(self, route: Route, question: FetchQuestion) -> None:
        """The broker says that the offset is out of range."""
        topic, partition = question.topic, question.partition
        if not route.is_leader:
            # A follower may be behind in what it has and in what it has deleted.
            self.client.prefer_leader(topic, partition)
            raise ElsewhereError("a follower does not hold the offset")
        offsets = await self.offsets(topic, partition)
        if not offsets.start <= question.offset <= offsets.end:
            raise OffsetOutOfRangeError(topic, partition, question.offset, offsets.start, offsets.end)


def opened(partition: int, offset: int, data: Any) -> Fetched:
    end = data.high_watermark if data.last_stable_offset < 0 else data.last_stable_offset
    aborted = [Aborted(each.first_offset, each.producer_id) for each in data.aborted_transactions or ()]
    try:
        return open_fetched(
            partition, offset, data.records or b"", aborted, end=end, log_start=data.log_start_offset
        )
    except DamagedError as error:
        raise NotNowError(str(error)) from error
