"""OffsetFetch (9), version 9, between nodes: where the groups of partitions of `__consumer_offsets` stand.

The first topic is `__consumer_offsets` with the partitions that the asked node should lead, the others are
those to tell of, with a partition where the asked node must see that they are closed (unread_topics.py). The
answer names each group that has a position in one of these; an error stands for all. Before that the node
confirms by a write that it leads the partitions, see subscription_positions.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.group_coordinator import OFFSETS_TOPIC
from penstock.broker.subscription_positions import positions_here
from penstock.types import ApiError, ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.offset_fetch.v9.request import OffsetFetchRequest

    from penstock.broker.context import RequestContext
    from penstock.groups.positions import Positions
    from penstock.wire.shapes import Body


@api(9, 9, 9, between_nodes=True)
async def subscription_positions(request: OffsetFetchRequest, context: RequestContext) -> Body:
    asked = [topic for group in request.groups for topic in group.topics or ()]
    if not asked or asked[0].name != OFFSETS_TOPIC:
        return _refusal(ErrorCode.invalid_request)
    topics = {topic.name for topic in asked[1:]}
    closed = [topic.name for topic in asked[1:] if topic.partition_indexes]
    try:
        positions = await positions_here(context.broker, asked[0].partition_indexes, topics, closed)
    except ApiError as error:
        return _refusal(error.code)
    return {"groups": _groups(positions)}


def _refusal(code: ErrorCode) -> Body:
    return {"groups": [{"group_id": "", "topics": (), "error_code": code}]}


def _groups(positions: Positions) -> list[Body]:
    return [
        {
            "group_id": group_id,
            "topics": [{"name": topic, "partitions": _partitions(offsets)}],
            "error_code": ErrorCode.none,
        }
        for topic, groups in positions.items()
        for group_id, offsets in groups.items()
    ]


def _partitions(offsets: dict[int, int]) -> list[Body]:
    return [
        {"partition_index": index, "committed_offset": offset, "metadata": "", "error_code": ErrorCode.none}
        for index, offset in offsets.items()
    ]
