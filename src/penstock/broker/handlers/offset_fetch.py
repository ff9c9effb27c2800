"""OffsetFetch (9), versions 1–8: the offsets that a group has committed.

A partition without one is answered with offset -1 and no error. From version 2 on the topics may be null,
which asks for all; from 8 on several groups can be asked for at once. With `require_stable` (from 7 on) an
offset that an open transaction is about to replace is answered with UNSTABLE_OFFSET_COMMIT: ask again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.types import ApiError, ErrorCode, TopicPartition
from penstock.wire.registry import api

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kio.schema.offset_fetch.v8.request import OffsetFetchRequest

    from penstock.broker.context import RequestContext
    from penstock.groups.offsets import CommittedOffset, Offsets
    from penstock.wire.shapes import Body

BATCH_VERSION: Final = 8
NO_OFFSET: Final = -1


@api(9, 1, 8)
def offset_fetch(request: OffsetFetchRequest, context: RequestContext) -> Body:
    if context.api_version < BATCH_VERSION:
        is_stable_only = getattr(context.raw, "require_stable", False)
        return _group(context.raw.group_id, context.raw.topics, context, is_stable_only)
    return {
        "groups": [
            {
                "group_id": group.group_id,
                **_group(group.group_id, group.topics, context, request.require_stable),
            }
            for group in request.groups
        ]
    }


def _group(
    group_id: str, topics: Iterable[Any] | None, context: RequestContext, is_stable_only: bool
) -> Body:
    try:
        group = context.broker.groups.maybe_group(group_id)
    except ApiError as error:
        return {"error_code": error.code, "topics": _answers(topics or (), None, error.code, False)}
    offsets = None if group is None else group.offsets
    if topics is None:
        answers = [] if offsets is None else _all(offsets, is_stable_only)
    else:
        answers = _answers(topics, offsets, ErrorCode.none, is_stable_only)
    return {"error_code": ErrorCode.none, "topics": answers}


def _answers(
    topics: Iterable[Any], offsets: Offsets | None, error_code: ErrorCode, is_stable_only: bool
) -> list[Body]:
    return [
        {
            "name": topic.name,
            "partitions": [
                _known(offsets, TopicPartition(topic.name, index), is_stable_only)
                if offsets is not None
                else _partition(index, None, error_code)
                for index in topic.partition_indexes
            ],
        }
        for topic in topics
    ]


def _all(offsets: Offsets, is_stable_only: bool) -> list[Body]:
    topics: dict[str, list[Body]] = {}
    # One that has no offset yet may be about to get its first.
    known = offsets.committed.keys() | (offsets.unstable() if is_stable_only else set())
    for where in sorted(known):
        topics.setdefault(where.topic, []).append(_known(offsets, where, is_stable_only))
    return [{"name": name, "partitions": partitions} for name, partitions in topics.items()]


def _known(offsets: Offsets, where: TopicPartition, is_stable_only: bool) -> Body:
    if is_stable_only and offsets.is_unstable(where):
        return _partition(where.partition, None, ErrorCode.unstable_offset_commit)
    return _partition(where.partition, offsets.committed.get(where), ErrorCode.none)


def _partition(index: int, offset: CommittedOffset | None, error_code: ErrorCode) -> Body:
    return {
        "partition_index": index,
        "committed_offset": NO_OFFSET if offset is None else offset.offset,
        "committed_leader_epoch": -1 if offset is None else offset.leader_epoch,
        "metadata": "" if offset is None else offset.metadata,
        "error_code": error_code,
    }
