"""AlterPartitionReassignments (45), version 0: move partitions to other brokers.

With one broker there is nowhere to move to: the replicas that a partition has are accepted, others refused,
and there is never a reassignment to cancel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.broker.answers import error_fields
from penstock.metadata.assignments import check_assignment
from penstock.types import ApiError, ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.alter_partition_reassignments.v0.request import AlterPartitionReassignmentsRequest

    from penstock.broker.context import RequestContext
    from penstock.metadata.image import MetadataImage
    from penstock.wire.shapes import Body


@api(45, 0, 0)
def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> Body:
    image = context.broker.controller.image
    return {
        "responses": [
            {
                "name": topic.name,
                "partitions": [
                    _answer(image, topic.name, each.partition_index, each.replicas)
                    for each in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


def _answer(image: MetadataImage, topic: str, index: int, replicas: tuple[int, ...] | None) -> dict[str, Any]:
    error = None
    try:
        _reassign(image, topic, index, replicas)
    except ApiError as refusal:
        error = refusal
    return {"partition_index": index, **error_fields(error)}


def _reassign(image: MetadataImage, topic: str, index: int, replicas: tuple[int, ...] | None) -> None:
    found = image.topics.get(topic)
    partition = found.partitions.get(index) if found is not None else None
    if partition is None:
        raise ApiError(ErrorCode.unknown_topic_or_partition, f"No partition {topic}-{index}.")
    if replicas is None:
        raise ApiError(ErrorCode.no_reassignment_in_progress)
    check_assignment([replicas], image.live_brokers(), len(replicas))
    if set(replicas) != set(partition.replicas):
        raise ApiError(
            ErrorCode.invalid_replica_assignment, f"{topic}-{index} cannot be moved to {list(replicas)}."
        )
