"""AddPartitionsToTxn (24), versions 0–3: partitions to which a transaction is about to write.

All or none: if one partition does not exist, the others are answered with OPERATION_NOT_ATTEMPTED. What is
answered with no error is in the log, so that every later coordinator knows where the markers belong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.answers import fenced
from penstock.metadata.internal_topics import is_internal
from penstock.transactions.messages import Identity
from penstock.types import ApiError, ErrorCode, TopicPartition
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body

FENCED_FROM: Final = 2


@api(24, 0, 3)
async def add_partitions_to_txn(request: AddPartitionsToTxnRequest, context: RequestContext) -> Body:
    wanted = [
        TopicPartition(topic.name, index)
        for topic in request.v3_and_below_topics
        for index in topic.partitions
    ]
    outcomes = _missing(wanted, context)
    if not outcomes:
        error = await _add(request, frozenset(wanted), context)
        error = fenced(error, context.api_version >= FENCED_FROM)
        outcomes = dict.fromkeys(wanted, error)
    return {
        "results_by_topic_v3_and_below": [
            {
                "name": topic.name,
                "results_by_partition": [
                    {
                        "partition_index": index,
                        "partition_error_code": outcomes[TopicPartition(topic.name, index)],
                    }
                    for index in topic.partitions
                ],
            }
            for topic in request.v3_and_below_topics
        ]
    }


def _missing(wanted: list[TopicPartition], context: RequestContext) -> dict[TopicPartition, ErrorCode]:
    """An outcome for each, if one of them cannot be written to."""
    topics = context.broker.controller.image.topics
    refused = {
        where: ErrorCode.topic_authorization_failed
        if is_internal(where.topic)
        else ErrorCode.unknown_topic_or_partition
        for where in wanted
        if is_internal(where.topic)
        or where.topic not in topics
        or where.partition not in topics[where.topic].partitions
    }
    if not refused:
        return {}
    return {where: refused.get(where, ErrorCode.operation_not_attempted) for where in wanted}


async def _add(
    request: AddPartitionsToTxnRequest, wanted: frozenset[TopicPartition], context: RequestContext
) -> ErrorCode:
    who = Identity(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
    )
    try:
        return await context.broker.transactions.add_partitions(who, wanted)
    except ApiError as error:
        return error.code
