"""OffsetFetch (9), versions 1–8: the offsets that a group has committed.

A partition without one is answered with offset -1 and no error. From version 2 on the topics may be null,
which asks for all; from 8 on several groups can be asked for at once. With `require_stable` (from 7 on) an
offset that an open transaction is about to replace is answered with UNSTABLE_OFFSET_COMMIT: ask again. Then,
too, the coordinator answers only if nobody can have taken its place, which it may have to find out first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.types import ApiError, ErrorCode, TopicPartition
from penstock.wire.registry import api

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Sequence

    from kio.schema.offset_fetch.v8.request import OffsetFetchRequest

    from penstock.broker.context import RequestContext
    from penstock.groups.offsets import CommittedOffset, Offsets
    from penstock.wire.shapes import Body

BATCH_VERSION: Final = 8
NO_OFFSET: Final = -1


@api(9, 1, 8)
def offset_fetch(request: OffsetFetchRequest, context: RequestContext) -> Body | Coroutine[None, None, Body]:
    if context.api_version < BATCH_VERSION:
        asked = [context.raw]
        is_stable_only = getattr(context.raw, "require_stable", False)
    else:
        asked, is_stable_only = list(request.groups), request.require_stable
    if is_stable_only:
        groups = context.broker.groups
        unproven = [group.group_id for group in asked if not groups.is_proven(group.group_id)]
        if unproven:
            return _when_proven(asked, unproven, context)
    return _response([_group(group, context, is_stable_only) for group in asked], context)


async def _when_proven(asked: Sequence[Any], unproven: Sequence[str], context: RequestContext) -> Body:
    """Who asks for stable offsets decides by them: a coordinator that was replaced must not answer."""
    errors: dict[str, ApiError] = {}
    for group_id in unproven:
        try:
            await context.broker.groups.prove(group_id)
        except ApiError as error:
            errors[group_id] = error
    answers = [
        _refused(group, errors[group.group_id])
        if group.group_id in errors
        else _group(group, context, is_stable_only=True)
        for group in asked
    ]
    return _response(answers, context)


def _response(answers: list[Body], context: RequestContext) -> Body:
    if context.api_version >= BATCH_VERSION:
        return {"groups": answers}
    (answer,) = answers
    return {name: value for name, value in answer.items() if name != "group_id"}


def _group(asked: Any, context: RequestContext, is_stable_only: bool) -> Body:
    try:
        group = context.broker.groups.maybe_group(asked.group_id)
    except ApiError as error:
        return _refused(asked, error)
    offsets = None if group is None else group.offsets
    if asked.topics is None:
        answers = [] if offsets is None else _all(offsets, is_stable_only)
    else:
        answers = _answers(asked.topics, offsets, ErrorCode.none, is_stable_only)
    return {"group_id": asked.group_id, "error_code": ErrorCode.none, "topics": answers}


def _refused(asked: Any, error: ApiError) -> Body:
    topics = _answers(asked.topics or (), None, error.code, False)
    return {"group_id": asked.group_id, "error_code": error.code, "topics": topics}


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
