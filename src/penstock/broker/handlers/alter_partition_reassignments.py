"""AlterPartitionReassignments (45), version 0: move partitions to other brokers (KIP-455).

The answer comes when the move is decided. It is done when the replicas that are added have caught up:
ListPartitionReassignments shows what is under way. Null replicas cancel a move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.broker.answers import error_fields
from penstock.metadata.reassignments import Reassignment
from penstock.types import ApiError
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.alter_partition_reassignments.v0.request import AlterPartitionReassignmentsRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body


@api(45, 0, 0, forwarded=True)
async def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> Body:
    wanted = [
        Reassignment(topic.name, each.partition_index, each.replicas)
        for topic in request.topics
        for each in topic.partitions
    ]
    try:
        outcomes = await context.controller.alter_reassignments(wanted)
    except ApiError as error:
        return error_fields(error)
    responses: dict[str, list[dict[str, Any]]] = {}
    for outcome in outcomes:
        answer = {"partition_index": outcome.partition, **error_fields(outcome.error)}
        responses.setdefault(outcome.topic, []).append(answer)
    return {"responses": [{"name": name, "partitions": found} for name, found in responses.items()]}
