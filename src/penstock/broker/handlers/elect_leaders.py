"""ElectLeaders (43), versions 0–2: make preferred replicas leaders.

With one broker each partition is led by its only replica, so there is nothing to elect: a partition that is
named gets ELECTION_NOT_NEEDED, and a request for all partitions (null) gets an empty list, as Kafka leaves
out what needs no election there. Unclean elections (type 1) are never held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.broker.answers import error_fields
from penstock.types import ApiError, ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.elect_leaders.v2.request import ElectLeadersRequest

    from penstock.broker.context import RequestContext
    from penstock.metadata.image import MetadataImage
    from penstock.wire.shapes import Body

PREFERRED = 0
UNCLEAN = 1


@api(43, 0, 2)
def elect_leaders(request: ElectLeadersRequest, context: RequestContext) -> Body:
    if request.election_type not in (PREFERRED, UNCLEAN):
        return {"error_code": ErrorCode.invalid_request}
    image = context.broker.controller.image
    if request.topic_partitions is not None:
        wanted = [(each.topic, each.partitions) for each in request.topic_partitions]
        return {"replica_election_results": [_elect(image, *each) for each in wanted]}
    everything = [_elect(image, topic.name, tuple(topic.partitions)) for topic in image.topics.values()]
    for result in everything:
        result["partition_result"] = [
            each
            for each in result["partition_result"]
            if each["error_code"] is not ErrorCode.election_not_needed
        ]
    return {"replica_election_results": [each for each in everything if each["partition_result"]]}


def _elect(image: MetadataImage, topic: str, partitions: tuple[int, ...]) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition_result": [
            {"partition_id": index, **error_fields(_refusal(image, topic, index))} for index in partitions
        ],
    }


def _refusal(image: MetadataImage, topic: str, index: int) -> ApiError:
    found = image.topics.get(topic)
    partition = found.partitions.get(index) if found is not None else None
    if partition is None:
        return ApiError(ErrorCode.unknown_topic_or_partition, f"No partition {topic}-{index}.")
    leader = image.brokers.get(partition.leader)
    if leader is not None and not leader.fenced:
        return ApiError(ErrorCode.election_not_needed, "Leader election not needed for topic partition.")
    return ApiError(ErrorCode.eligible_leaders_not_available, "No eligible replica is alive.")
