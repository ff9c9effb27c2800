"""OffsetCommit (8), versions 2–8: remember how far a group has read.

Answered when the offsets are written. Members commit in their generation; with generation -1 anybody may
commit to a group without members. Versions 2–4 may ask for a retention of their own.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from penstock.groups.messages import CommitRequest, OffsetsReply
from penstock.groups.offsets import CommittedOffset
from penstock.types import ApiError, ErrorCode, TopicPartition
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.offset_commit.v8.request import OffsetCommitRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body

MILLISECOND: Final = timedelta(milliseconds=1)
RETENTION_VERSION_LAST: Final = 4


@api(8, 2, 8)
async def offset_commit(request: OffsetCommitRequest, context: RequestContext) -> Body:
    offsets = _existing(request, context)
    reply = OffsetsReply()
    if offsets:
        asked = CommitRequest(
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            generation_id=request.generation_id_or_member_epoch,
            offsets=offsets,
        )
        try:
            reply = await context.broker.groups.commit(request.group_id, asked)
        except ApiError as error:
            reply = OffsetsReply(error.code)

    def outcome(partition: TopicPartition) -> ErrorCode:
        if partition not in offsets:
            return ErrorCode.unknown_topic_or_partition
        return reply.partitions.get(partition, reply.error)

    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": one.partition_index,
                        "error_code": outcome(TopicPartition(topic.name, one.partition_index)),
                    }
                    for one in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


def _existing(request: OffsetCommitRequest, context: RequestContext) -> dict[TopicPartition, CommittedOffset]:
    """What is to be committed for partitions that exist."""
    now_ms = context.broker.groups.now_ms()
    expire_timestamp_ms = None
    if context.api_version <= RETENTION_VERSION_LAST:
        retention_ms = context.raw.retention_time // MILLISECOND
        expire_timestamp_ms = now_ms + retention_ms if retention_ms >= 0 else None
    topics = context.broker.controller.image.topics
    return {
        TopicPartition(topic.name, one.partition_index): CommittedOffset(
            offset=one.committed_offset,
            leader_epoch=one.committed_leader_epoch,
            metadata=one.committed_metadata or "",
            commit_timestamp_ms=now_ms,
            expire_timestamp_ms=expire_timestamp_ms,
        )
        for topic in request.topics
        if topic.name in topics
        for one in topic.partitions
        if one.partition_index in topics[topic.name].partitions
    }
