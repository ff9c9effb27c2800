"""A replica's fetch (version 17) between the session that makes it and the one that answers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import UUID

from penstock.replication.fetch_session import SessionRequest
from penstock.replication.replica_fetch import ReplicaFetch
from penstock.wire.replica_fetch import AskedPartition, write_request

if TYPE_CHECKING:
    from kio.schema.fetch.v17.request import FetchRequest

    from penstock.replication.fetch_session import Key
    from penstock.replication.leader import Member

NO_TOPIC: Final = UUID(int=0)


def read_fetch(request: FetchRequest) -> SessionRequest:
    fetches: dict[Key, ReplicaFetch] = {
        (topic.topic_id or NO_TOPIC, asked.partition): ReplicaFetch(
            asked.current_leader_epoch, asked.fetch_offset, asked.last_fetched_epoch, asked.log_start_offset
        )
        for topic in request.topics
        for asked in topic.partitions
    }
    forgotten = tuple(
        (topic.topic_id or NO_TOPIC, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    )
    return SessionRequest(request.session_id, request.session_epoch, fetches, forgotten)


def read_bytes_max(request: FetchRequest) -> dict[Key, int]:
    """How much each partition that the request names may be answered with."""
    return {
        (topic.topic_id or NO_TOPIC, asked.partition): asked.partition_max_bytes
        for topic in request.topics
        for asked in topic.partitions
    }


def write_fetch(
    request: SessionRequest, replica: Member, *, cluster_id: str, wait_ms: int, bytes_max: int
) -> bytes:
    """The body of the request."""
    topics: dict[UUID, list[AskedPartition]] = {}
    for (topic_id, index), fetch in request.fetches.items():
        asked = AskedPartition(
            index, fetch.leader_epoch, fetch.offset, fetch.last_epoch, fetch.log_start_offset, bytes_max
        )
        topics.setdefault(topic_id, []).append(asked)
    forgotten: dict[UUID, list[int]] = {}
    for topic_id, index in request.forgotten:
        forgotten.setdefault(topic_id, []).append(index)
    return write_request(
        topics,
        forgotten,
        session_id=request.session_id,
        session_epoch=request.epoch,
        max_wait_ms=wait_ms,
        max_bytes=bytes_max,
        cluster_id=cluster_id,
        replica_id=replica.broker_id,
        replica_epoch=replica.broker_epoch,
    )
