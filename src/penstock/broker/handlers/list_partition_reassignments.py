"""ListPartitionReassignments (46), version 0: the moves that are under way, of all partitions or of some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.metadata.reassignments import list_reassignments
from penstock.types import ErrorCode, TopicPartition
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body


@api(46, 0, 0)
def list_partition_reassignments(request: ListPartitionReassignmentsRequest, context: RequestContext) -> Body:
    wanted = None
    if request.topics is not None:
        wanted = [
            TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes
        ]
    topics: dict[str, list[dict[str, Any]]] = {}
    for move in list_reassignments(context.broker.controller.image, wanted):
        topics.setdefault(move.topic, []).append(
            {
                "partition_index": move.partition,
                "replicas": move.replicas,
                "adding_replicas": move.adding,
                "removing_replicas": move.removing,
            }
        )
    return {
        "error_code": ErrorCode.none,
        "topics": [{"name": name, "partitions": found} for name, found in topics.items()],
    }
