"""CreatePartitions (37), versions 0–3: more partitions for topics that exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.answers import error_fields
from penstock.metadata.assignments import NewPartitions
from penstock.metadata.topics import TopicOutcome
from penstock.types import ApiError
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body


@api(37, 0, 3, forwarded=True)
async def create_partitions(request: CreatePartitionsRequest, context: RequestContext) -> Body:
    wanted = [_new_partitions(topic) for topic in request.topics]
    try:
        outcomes = await context.controller.create_partitions(wanted, validate_only=request.validate_only)
    except ApiError as error:
        outcomes = [TopicOutcome(each.topic, error=error) for each in wanted]
    return {"results": [{"name": outcome.name, **error_fields(outcome.error)} for outcome in outcomes]}


def _new_partitions(topic: CreatePartitionsTopic) -> NewPartitions:
    assignments = topic.assignments
    return NewPartitions(
        topic.name,
        topic.count,
        None if assignments is None else [tuple(each.broker_ids) for each in assignments],
    )
