"""AlterPartition (56), version 3, between nodes: a leader proposes other in-sync sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.metadata.partition_changes import IsrChange, IsrOutcome
from penstock.types import ApiError, ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.alter_partition.v3.request import AlterPartitionRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body


@api(56, 3, 3, between_nodes=True)
async def alter_partition(request: AlterPartitionRequest, context: RequestContext) -> Body:
    changes = [
        IsrChange(
            topic.topic_id,
            partition.partition_index,
            partition.leader_epoch,
            partition.partition_epoch,
            tuple((member.broker_id, member.broker_epoch) for member in partition.new_isr_with_epochs),
        )
        for topic in request.topics
        if topic.topic_id is not None
        for partition in topic.partitions
    ]
    try:
        outcomes = await context.broker.controller.alter_partitions(
            request.broker_id, request.broker_epoch, changes
        )
    except ApiError as error:
        return {"error_code": error.code}
    return {
        "error_code": ErrorCode.none,
        "topics": [{"topic_id": outcome.topic_id, "partitions": [_answer(outcome)]} for outcome in outcomes],
    }


def _answer(outcome: IsrOutcome) -> dict[str, Any]:
    answer: dict[str, Any] = {"partition_index": outcome.partition}
    if outcome.error is not None:
        return answer | {"error_code": outcome.error.code}
    assert outcome.state is not None
    return answer | {
        "error_code": ErrorCode.none,
        "leader_id": outcome.state.leader,
        "leader_epoch": outcome.state.leader_epoch,
        "isr": outcome.state.isr,
        "partition_epoch": outcome.state.partition_epoch,
    }
