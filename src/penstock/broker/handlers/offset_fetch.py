"""OffsetFetch (9), versions 1–8: the offsets that a group has committed.

A partition without one is answered with offset -1 and no error. From version 2 on the topics may be null,
which asks for all; from 8 on several groups can be asked for at once. `require_stable` asks not to be shown
offsets that an open transaction is about to replace; without transactions there are none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.types import ApiError, ErrorCode, TopicPartition
from penstock.wire.registry import api

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kio.schema.offset_fetch.v8.request import OffsetFetchRequest

    from penstock.broker.context import RequestContext
    from penstock.groups.offsets import CommittedOffset
    from penstock.wire.shapes import Body

BATCH_VERSION: Final = 8
NO_OFFSET: Final = -1


@api(9, 1, 8)
def offset_fetch(request: OffsetFetchRequest, context: RequestContext) -> Body:
    if context.api_version < BATCH_VERSION:
        return _group(context.raw.group_id, context.raw.topics, context)
    return {
        "groups": [
            {"group_id": group.group_id, **_group(group.group_id, group.topics, context)}
            for group in request.groups
        ]
    }


def _group(group_id: str, topics: Iterable[Any] | None, context: RequestContext) -> Body:
    try:
        group = context.broker.groups.maybe_group(group_id)
    except ApiError as error:
        return {"error_code": error.code, "topics": _answers(topics or (), {}, error.code)}
    committed = {} if group is None else group.offsets.committed
    if topics is None:
        return {"error_code": ErrorCode.none, "topics": _all(committed)}
    return {"error_code": ErrorCode.none, "topics": _answers(topics, committed, ErrorCode.none)}


def _answers(
    topics: Iterable[Any], committed: dict[TopicPartition, CommittedOffset], error_code: ErrorCode
) -> list[Body]:
    return [
        {
            "name": topic.name,
            "partitions": [
                _partition(index, committed.get(TopicPartition(topic.name, index)), error_code)
                for index in topic.partition_indexes
            ],
        }
        for topic in topics
    ]


def _all(committed: dict[TopicPartition, CommittedOffset]) -> list[Body]:
    topics: dict[str, list[Body]] = {}
    for (topic, index), offset in sorted(committed.items(), key=lambda item: item[0]):
        topics.setdefault(topic, []).append(_partition(index, offset, ErrorCode.none))
    return [{"name": name, "partitions": partitions} for name, partitions in topics.items()]


def _partition(index: int, offset: CommittedOffset | None, error_code: ErrorCode) -> Body:
    return {
        "partition_index": index,
        "committed_offset": NO_OFFSET if offset is None else offset.offset,
        "committed_leader_epoch": -1 if offset is None else offset.leader_epoch,
        "metadata": "" if offset is None else offset.metadata,
        "error_code": error_code,
    }
