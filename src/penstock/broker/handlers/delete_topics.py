"""DeleteTopics (20), versions 1–6: by name, from version 6 on also by id. Internal topics stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.answers import error_fields
from penstock.metadata.topics import TopicOutcome, TopicReference
from penstock.types import ApiError
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.delete_topics.v6.request import DeleteTopicsRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body

TOPIC_IDS_FROM = 6


@api(20, 1, 6, forwarded=True)
async def delete_topics(request: DeleteTopicsRequest, context: RequestContext) -> Body:
    if context.api_version < TOPIC_IDS_FROM:
        references = [TopicReference(name) for name in context.raw.topic_names]
    else:
        references = [TopicReference(topic.name, topic.topic_id) for topic in request.topics]
    try:
        outcomes = await context.controller.delete_topics(references)
    except ApiError as error:
        outcomes = [TopicOutcome(each.name, each.topic_id, error) for each in references]
    return {
        "responses": [
            {"name": outcome.name, "topic_id": outcome.topic_id, **error_fields(outcome.error)}
            for outcome in outcomes
        ]
    }
