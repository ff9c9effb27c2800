"""TxnOffsetCommit (28), versions 0–3: offsets that count when the producer's transaction is committed.

Until then they are pending: OffsetFetch does not show them. From version 3 on the request names the member
and generation that it commits for, so that a consumer that lost its partitions cannot. As for records, the
coordinator of the transaction is asked first whether it is open and the group is part of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.groups.messages import CommitRequest, OffsetsReply, Producer
from penstock.groups.offsets import CommittedOffset
from penstock.transactions.messages import Identity
from penstock.types import ApiError, ErrorCode, TopicPartition
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.txn_offset_commit.v3.request import TxnOffsetCommitRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body


_AS_COMMIT_ERROR: Final = {
    # Come again: it is the transaction's coordinator that cannot say, and not the group's.
    ErrorCode.coordinator_not_available: ErrorCode.coordinator_load_in_progress,
    ErrorCode.not_coordinator: ErrorCode.coordinator_load_in_progress,
    ErrorCode.concurrent_transactions: ErrorCode.coordinator_load_in_progress,
    ErrorCode.producer_fenced: ErrorCode.invalid_producer_epoch,
}
"""What the transaction's coordinator says, in codes that producers know from this API."""


@api(28, 0, 3)
async def txn_offset_commit(request: TxnOffsetCommitRequest, context: RequestContext) -> Body:
    offsets = _existing(request, context)
    reply = OffsetsReply()
    if offsets:
        try:
            reply = await _commit(request, offsets, context)
        except ApiError as error:
            reply = OffsetsReply(error.code)

    def outcome(where: TopicPartition) -> ErrorCode:
        if where not in offsets:
            return ErrorCode.unknown_topic_or_partition
        return reply.partitions.get(where, reply.error)

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


async def _commit(
    request: TxnOffsetCommitRequest, offsets: dict[TopicPartition, CommittedOffset], context: RequestContext
) -> OffsetsReply:
    broker = context.broker
    who = Identity(request.transactional_id, request.producer_id, request.producer_epoch)
    broker.groups.shard(request.group_id)
    where = broker.groups.partition_of(request.group_id)
    partition = broker.partitions.require(*where)

    async def verify() -> ErrorCode:
        code = await broker.transactions.verify(who, where)
        return _AS_COMMIT_ERROR.get(code, code)

    await partition.verifications.verified(request.producer_id, verify)
    asked = CommitRequest(
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation_id=request.generation_id,
        offsets=offsets,
        producer=Producer(request.producer_id, request.producer_epoch),
    )
    return await broker.groups.commit(request.group_id, asked)


def _existing(
    request: TxnOffsetCommitRequest, context: RequestContext
) -> dict[TopicPartition, CommittedOffset]:
    """What is to be committed for partitions that exist."""
    now_ms = context.broker.groups.now_ms()
    topics: Any = context.broker.controller.image.topics
    return {
        TopicPartition(topic.name, one.partition_index): CommittedOffset(
            offset=one.committed_offset,
            leader_epoch=one.committed_leader_epoch,
            metadata=one.committed_metadata or "",
            commit_timestamp_ms=now_ms,
        )
        for topic in request.topics
        if topic.name in topics
        for one in topic.partitions
        if one.partition_index in topics[topic.name].partitions
    }
