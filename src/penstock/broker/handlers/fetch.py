"""Fetch (1), versions 4–12: read committed batches, waiting for new ones if there are too few.

Whole batches are returned, beginning with the one that contains the offset asked for, and at least one even
if it is larger than the limits, so that a reader always gets on. For a client that sends its partitions in
the same order each time, the one that is read first changes from fetch to fetch: with small limits every
partition gets its turn. A fetch that does not find `min_bytes`
waits without polling: partitions tell it what arrives, and it reads once more when that is enough or when
its time is over.

Sessions are declined (`session_id` 0), which clients take as "send everything each time".

A follower serves consumers too (KIP-392), up to the high watermark that it knows; the leader points a client
at one in its own rack. Replicas fetch with version 17, see replica_fetch.py.

With isolation level 1 (read_committed) nothing at or after the last stable offset is read, and the answer
names the aborted transactions whose records are among what is read: the client leaves those out.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.broker.reply import EncodedBody
from penstock.broker.wakeup import Wakeup
from penstock.storage import StorageError
from penstock.types import ApiError, ErrorCode
from penstock.wire.batch import iterate_headers
from penstock.wire.fetch import PartitionAnswer, write_response
from penstock.wire.registry import api

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kio.schema.fetch.v12.request import FetchPartition, FetchRequest

    from penstock.broker.context import RequestContext
    from penstock.broker.partition import Partition
    from penstock.wire.batch import Buffer

READ_COMMITTED = 1
FOLLOWERS_FROM = 11
"""Clients of earlier versions never ask a follower on purpose."""
Answers = list[tuple[str, list[PartitionAnswer]]]


@api(1, 4, 12)
async def fetch(request: FetchRequest, context: RequestContext) -> EncodedBody:
    if request.session_id != 0 and request.session_epoch > 0:
        error = ErrorCode.fetch_session_id_not_found
        return EncodedBody(write_response([], context.api_version, error))
    reading = _Fetch(request, context)
    answers = reading.read()
    now_s = asyncio.get_running_loop().time
    max_wait_s = request.max_wait.total_seconds()
    deadline_s = now_s() + min(max_wait_s, context.broker.config.limits.fetch_wait_ms_max / 1000)
    while reading.must_wait and (left_s := deadline_s - now_s()) > 0:
        await reading.wait(left_s)
        answers = reading.read()
        if not reading.is_committed_only:
            break  # what arrived is readable; for readers of committed data it may not be, yet
    return EncodedBody(write_response(answers, context.api_version))


class _Fetch:
    def __init__(self, request: FetchRequest, context: RequestContext) -> None:
        self._request = request
        self._context = context
        self._broker = context.broker
        self._partitions: list[Partition] = []
        self._missing_bytes = 0
        self._wakeup = Wakeup()
        self._turn = self._next_turn()
        self.must_wait = False
        self.is_committed_only = request.isolation_level == READ_COMMITTED
        self._sends_elsewhere = False

    def read(self) -> Answers:
        """Read all partitions within the limits, the one whose turn it is first."""
        wanted = [
            (topic_place, topic.topic, partition)
            for topic_place, topic in enumerate(self._request.topics)
            for partition in topic.partitions
        ]
        limits = self._broker.config.limits
        room = min(self._request.max_bytes, limits.fetch_response_bytes_max, self._broker.memory.free_bytes)
        self._partitions = []
        total = 0
        failed = False
        found: dict[int, PartitionAnswer] = {}
        turn = self._turn % len(wanted) if wanted else 0
        for place in (*range(turn, len(wanted)), *range(turn)):
            _, topic, asked = wanted[place]
            # Only the first batch of all may break the limits.
            answer = self._read_partition(topic, asked, max(room - total, 0), is_first=total == 0)
            total += len(answer.records)
            failed = failed or answer.error_code != 0
            found[place] = answer
        self._missing_bytes = min(self._request.min_bytes, self._request.max_bytes) - total
        self.must_wait = (
            self._missing_bytes > 0 and not failed and not self._sends_elsewhere and bool(self._partitions)
        )
        answers: Answers = [(topic.topic, []) for topic in self._request.topics]
        for place, (topic_place, _, _) in enumerate(wanted):
            answers[topic_place][1].append(found[place])
        return answers

    def _next_turn(self) -> int:
        """Which partition is read first. A client that changes the order itself knows best."""
        topics = self._request.topics
        first = (
            (topics[0].topic, topics[0].partitions[0].partition) if topics and topics[0].partitions else None
        )
        state = self._context.connection
        state.fetch_turn = state.fetch_turn + 1 if state.fetch_first == first else 0
        state.fetch_first = first
        return state.fetch_turn

    def _read_partition(
        self, topic: str, asked: FetchPartition, room: int, *, is_first: bool
    ) -> PartitionAnswer:
        try:
            partition = self._broker.partitions.require(topic, asked.partition)
            partition.check_leader_epoch(asked.current_leader_epoch)
            high_watermark, log_start = partition.high_watermark, partition.log_start_offset
            stable = partition.last_stable_offset
            end_offset = stable if self.is_committed_only else high_watermark
            if partition.is_leader:
                other = self._preferred_replica(partition, asked.fetch_offset)
                if other is not None:
                    self._sends_elsewhere = True
                    return PartitionAnswer(
                        asked.partition,
                        0,
                        high_watermark,
                        stable,
                        log_start,
                        preferred_read_replica=other,
                    )
            elif partition.follower is None or self._context.api_version < FOLLOWERS_FROM:
                raise ApiError(ErrorCode.not_leader_or_follower)
            elif asked.fetch_offset > high_watermark:
                raise ApiError(ErrorCode.offset_not_available)
            self._partitions.append(partition)
            if asked.fetch_offset > partition.log.log_end_offset:
                self._check_knows_end(partition)
            if not log_start <= asked.fetch_offset <= partition.log.log_end_offset:
                return PartitionAnswer(
                    asked.partition, ErrorCode.offset_out_of_range, high_watermark, stable, log_start
                )
            records: Buffer = b""
            size_max = min(asked.partition_max_bytes, room)
            if asked.fetch_offset < end_offset and (is_first or size_max > 0):
                records = partition.read(asked.fetch_offset, size_max, end_offset=end_offset)
                if len(records) > size_max and not is_first:
                    records = b""  # its turn comes when it is the first
        except ApiError as error:
            return PartitionAnswer(asked.partition, error.code)
        except StorageError as error:
            self._broker.log.error(
                "offset %d of %s-%d: %s", asked.fetch_offset, topic, asked.partition, error
            )
            return PartitionAnswer(asked.partition, ErrorCode.kafka_storage_error)
        aborted = None
        if self.is_committed_only:
            aborted = _aborted(partition, asked.fetch_offset, records) if len(records) else ()
        return PartitionAnswer(
            asked.partition, 0, high_watermark, stable, log_start, records=records, aborted=aborted
        )

    def _check_knows_end(self, partition: Partition) -> None:
        """That an offset is out of range makes many clients begin anew: nobody says so who may have been
        replaced, or does not know yet how much of its log is committed.
        """
        leader = partition.leader
        if leader is not None and not (self._broker.lifecycle.has_lease and leader.serves_offsets):
            knows_error = self._context.api_version >= FOLLOWERS_FROM
            raise ApiError(
                ErrorCode.offset_not_available if knows_error else ErrorCode.not_leader_or_follower
            )

    def _preferred_replica(self, partition: Partition, offset: int) -> int | None:
        """A live in-sync follower in the client's rack that holds the offset; None if we are as good."""
        rack = self._request.rack_id
        if not rack or len(partition.image.isr) == 1 or rack == self._broker.config.rack:
            return None
        assert partition.leader is not None
        brokers = self._broker.controller.image.brokers
        for broker_id in partition.image.isr:
            broker = brokers.get(broker_id)
            if broker is not None and broker.rack == rack and not broker.fenced:
                end_offset = partition.leader.end_offset_of(broker_id)
                if broker_id != self._broker.config.node_id and end_offset >= offset:
                    return broker_id
        return None

    async def wait(self, timeout_s: float) -> None:
        """Until enough bytes have arrived or the time is over."""
        partitions = self._partitions
        for partition in partitions:
            partition.add_reader(self)
        try:
            await self._wakeup.wait(timeout_s)
        finally:
            for partition in partitions:
                partition.remove_reader(self)

    def data_arrived(self, size: int) -> None:
        self._missing_bytes -= size
        if self._missing_bytes <= 0:
            self._wakeup.wake()


def _aborted(partition: Partition, offset: int, records: Buffer) -> Sequence[tuple[int, int]]:
    """Those that have to do with what was read, and no more: there may be very many."""
    transactions = partition.log.producers.transactions
    if not transactions.has_aborted(offset):
        return ()
    end_offset = offset
    for _, header in iterate_headers(memoryview(records)):
        end_offset = header.next_offset
    found = transactions.aborted_between(offset, end_offset)
    return [(each.producer_id, each.first_offset) for each in found]
