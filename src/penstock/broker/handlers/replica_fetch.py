"""Fetch (1), version 17, between nodes: followers pull what leaders have, and thereby say what they have.

Topics are named by their ids, so that one that was deleted and created again never mixes with the old one. A
fetch waits, without polling, until there is something to say: bytes, another high watermark, another start of
the log. The metadata log is fetched in the same way, alone in its request, and answered by the quorum.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from uuid import UUID

from penstock.broker.quorum_requests import is_of_another_cluster
from penstock.broker.reply import EncodedBody
from penstock.controller.metadata_log import METADATA_TOPIC_ID
from penstock.controller.quorum_wire import read_fetch
from penstock.replication.leader import Member
from penstock.replication.replica_fetch import ReplicaFetch
from penstock.storage import StorageError
from penstock.types import ApiError, ErrorCode
from penstock.wire.registry import api
from penstock.wire.replica_fetch import ReplicaPartition, write_response

if TYPE_CHECKING:
    from kio.schema.fetch.v17.request import FetchPartition, FetchRequest

    from penstock.broker.context import RequestContext
    from penstock.broker.partition import Partition
    from penstock.wire.batch import Buffer
    from penstock.wire.shapes import Body

NO_TOPIC: Final = UUID(int=0)
Answers = list[tuple[UUID, list[ReplicaPartition]]]


@api(1, 17, 17, between_nodes=True)
async def replica_fetch(request: FetchRequest, context: RequestContext) -> EncodedBody | Body:
    if is_of_another_cluster(context, request.cluster_id):
        return {"error_code": ErrorCode.inconsistent_cluster_id}
    replica_id = request.replica_state.replica_id
    if request.topics and request.topics[0].topic_id == METADATA_TOPIC_ID:
        if len(request.topics[0].partitions) != 1:
            return {"error_code": ErrorCode.invalid_request}
        message = read_fetch(replica_id, request.topics[0].partitions[0])
        return await context.broker.controller.driver.fetch(message)
    reading = _ReplicaFetch(request, context)
    answers = reading.read()
    if not reading.has_news and (wait_s := request.max_wait.total_seconds()) > 0:
        await reading.wait(min(wait_s, context.broker.config.limits.fetch_wait_ms_max / 1000))
        answers = reading.read()
    return EncodedBody(write_response(answers))


class _ReplicaFetch:
    def __init__(self, request: FetchRequest, context: RequestContext) -> None:
        self._request = request
        self._broker = context.broker
        self._told = context.connection.replica_told
        self._replica = request.replica_state
        self._partitions: list[Partition] = []
        self._woken: asyncio.Future[None] | None = None
        self.has_news = False

    def read(self) -> Answers:
        """What every partition has for the replica; at least one batch, whatever the limits are."""
        room = min(self._request.max_bytes, self._broker.config.limits.fetch_response_bytes_max)
        self._partitions = []
        answers: Answers = []
        total = 0
        for topic in self._request.topics:
            found = []
            for asked in topic.partitions:
                answer = self._read_partition(
                    topic.topic_id or NO_TOPIC, asked, max(room - total, 0), total == 0
                )
                total += len(answer.records)
                found.append(answer)
            answers.append((topic.topic_id or NO_TOPIC, found))
        self.has_news = self.has_news or total > 0
        return answers

    def _read_partition(
        self, topic_id: UUID, asked: FetchPartition, room: int, is_first: bool
    ) -> ReplicaPartition:
        try:
            partition = self._find(topic_id, asked.partition)
            fetch = ReplicaFetch(
                asked.current_leader_epoch,
                asked.fetch_offset,
                asked.last_fetched_epoch,
                asked.log_start_offset,
            )
            assert partition.leader is not None
            replica = Member(self._replica.replica_id, self._replica.replica_epoch)
            refused = partition.leader.maybe_refuse(replica, fetch)
            if refused is not None:
                self.has_news = True
                return ReplicaPartition(
                    asked.partition,
                    refused.error,
                    refused.high_watermark,
                    refused.log_start_offset,
                    refused.diverging,
                )
            partition.replica_fetched(replica, fetch)
            self._partitions.append(partition)
            records: Buffer = b""
            size_max = min(asked.partition_max_bytes, room)
            if asked.fetch_offset < partition.log.flushed_end_offset and (is_first or size_max > 0):
                records = partition.log.read(
                    asked.fetch_offset, size_max, end_offset=partition.log.flushed_end_offset
                )
        except ApiError as error:
            self.has_news = True
            return ReplicaPartition(asked.partition, error.code)
        except StorageError as error:
            self._broker.log.error(
                "offset %d of %s-%d: %s", asked.fetch_offset, topic_id, asked.partition, error
            )
            self.has_news = True
            return ReplicaPartition(asked.partition, ErrorCode.kafka_storage_error)
        news = (partition.leader_epoch, partition.high_watermark, partition.log_start_offset)
        key = (topic_id, asked.partition)
        if self._told.get(key) != news:
            self._told[key] = news
            self.has_news = True
        return ReplicaPartition(
            asked.partition, 0, partition.high_watermark, partition.log_start_offset, records=records
        )

    def _find(self, topic_id: UUID, index: int) -> Partition:
        topic = self._broker.controller.image.topic_by_id(topic_id)
        if topic is None:
            raise ApiError(ErrorCode.unknown_topic_id)
        partition = self._broker.partitions.get(topic.name, index)
        if partition is None or partition.topic_id != topic_id or not partition.is_leader:
            raise ApiError(ErrorCode.not_leader_or_follower)
        return partition

    async def wait(self, timeout_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._woken = loop.create_future()
        timer = loop.call_later(timeout_s, self._wake)
        partitions = self._partitions
        for partition in partitions:
            partition.add_reader(self, is_replica=True)
        try:
            await self._woken
        finally:
            timer.cancel()
            for partition in partitions:
                partition.remove_reader(self)

    def data_arrived(self, size: int) -> None:  # noqa: ARG002 - any news is news
        self._wake()

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)
