"""OffsetDelete (47), version 0: forget committed offsets of topics that the group does not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.groups.messages import OffsetsReply
from penstock.types import ApiError, ErrorCode, TopicPartition
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.offset_delete.v0.request import OffsetDeleteRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body


@api(47, 0, 0)
async def offset_delete(request: OffsetDeleteRequest, context: RequestContext) -> Body:
    topics = context.broker.controller.image.topics
    existing = {
        TopicPartition(topic.name, one.partition_index)
        for topic in request.topics
        if topic.name in topics
        for one in topic.partitions
        if one.partition_index in topics[topic.name].partitions
    }
    try:
        reply = await context.broker.groups.delete_offsets(request.group_id, sorted(existing))
    except ApiError as error:
        reply = OffsetsReply(error.code)
    if reply.error is not ErrorCode.none:
        return {"error_code": reply.error, "topics": ()}
    return {
        "error_code": ErrorCode.none,
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": one.partition_index,
                        "error_code": reply.partitions.get(
                            TopicPartition(topic.name, one.partition_index),
                            ErrorCode.unknown_topic_or_partition,
                        ),
                    }
                    for one in topic.partitions
                ],
            }
            for topic in request.topics
        ],
    }
