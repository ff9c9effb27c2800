"""ElectLeaders (43), versions 0–2: make preferred replicas leaders, or elect without an in-sync replica.

A partition that is named and led as it should be gets ELECTION_NOT_NEEDED; a request for all partitions is
answered with those that needed an election. An unclean election (type 1) is held for partitions without a
leader only: whoever has the greatest log leads, see `metadata.recovery`.

Two more types are Penstock's own, from `penstock cluster balance`: what the balancer would do without waiting
is told (101), or done and told (100). Each result has the move and its reason as error message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.broker.answers import error_fields
from penstock.metadata.elections import ElectionType
from penstock.types import ApiError, ErrorCode, TopicPartition
from penstock.wire.registry import api

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kio.schema.elect_leaders.v2.request import ElectLeadersRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body

TYPES_FROM = 1
BALANCE = 100
BALANCE_DRY_RUN = 101


@api(43, 0, 2, forwarded=True)
async def elect_leaders(request: ElectLeadersRequest, context: RequestContext) -> Body:
    kind = request.election_type if context.api_version >= TYPES_FROM else ElectionType.PREFERRED
    if kind in (BALANCE, BALANCE_DRY_RUN):
        return await _balance(context, is_dry_run=kind == BALANCE_DRY_RUN)
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
    return _answer(
        (each.topic, {"partition_id": each.partition, **error_fields(each.error)}) for each in outcomes
    )


async def _balance(context: RequestContext, *, is_dry_run: bool) -> Body:
    try:
        moves = await context.controller.balance(is_dry_run=is_dry_run)
    except ApiError as error:
        return {"error_code": error.code}
    return _answer(
        (
            move.place.topic,
            {
                "partition_id": move.place.partition,
                "error_code": ErrorCode.none,
                "error_message": f"{move.text}\n{move.rule}: {move.reason}",
            },
        )
        for move in moves
    )


def _answer(results: Iterable[tuple[str, dict[str, Any]]]) -> Body:
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for topic, result in results:
        by_topic.setdefault(topic, []).append(result)
    return {
        "replica_election_results": [
            {"topic": topic, "partition_result": found} for topic, found in by_topic.items()
        ]
    }
