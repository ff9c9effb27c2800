"""ElectLeaders (43), versions 0–2: make preferred replicas leaders, or elect without an in-sync replica.

A partition that is named and led as it should be gets ELECTION_NOT_NEEDED; a request for all partitions is
answered with those that needed an election. An unclean election (type 1) is held for partitions without a
leader only: whoever has the greatest log leads, see `metadata.recovery`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.broker.answers import error_fields
from penstock.metadata.elections import ElectionType
from penstock.types import ApiError, TopicPartition
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.elect_leaders.v2.request import ElectLeadersRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body

TYPES_FROM = 1


@api(43, 0, 2, forwarded=True)
async def elect_leaders(request: ElectLeadersRequest, context: RequestContext) -> Body:
    kind = request.election_type if context.api_version >= TYPES_FROM else ElectionType.PREFERRED
    wanted = None
    if request.topic_partitions is not None:
        wanted = [
            TopicPartition(topic.topic, index)
            for topic in request.topic_partitions
            for index in topic.partitions
        ]
    try:
        outcomes = await context.controller.elect_leaders(wanted, kind)
    except ApiError as error:
        return {"error_code": error.code}
    results: dict[str, list[dict[str, Any]]] = {}
    for outcome in outcomes:
        answer = {"partition_id": outcome.partition, **error_fields(outcome.error)}
        results.setdefault(outcome.topic, []).append(answer)
    return {
        "replica_election_results": [
            {"topic": topic, "partition_result": found} for topic, found in results.items()
        ]
    }
