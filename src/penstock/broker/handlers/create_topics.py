"""CreateTopics (19), versions 2–7: all the topics of a request in one step; each succeeds or fails alone.

An answered topic can be written to. From version 5 on the answer describes what was created, its configs
included. The timeout is not needed: the answer comes when the change is durable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.broker.answers import error_fields
from penstock.metadata.assignments import NewTopic
from penstock.metadata.topics import TopicOutcome
from penstock.peers.peers import NODE_CLIENT_ID
from penstock.types import ApiError
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest

    from penstock.broker.context import RequestContext
    from penstock.controller.controller import Controller
    from penstock.wire.shapes import Body


@api(19, 2, 7, forwarded=True)
async def create_topics(request: CreateTopicsRequest, context: RequestContext) -> Body:
    new_topics = [_new_topic(topic) for topic in request.topics]
    try:
        outcomes = await context.controller.create_topics(
            new_topics,
            validate_only=request.validate_only,
            allow_internal=context.client_id.startswith(NODE_CLIENT_ID),
        )
    except ApiError as error:
        outcomes = [TopicOutcome(topic.name, error=error) for topic in new_topics]
    return {
        "topics": [_answer(outcome, context.broker.controller, request.validate_only) for outcome in outcomes]
    }


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        [(each.partition_index, tuple(each.broker_ids)) for each in topic.assignments],
        [(config.name, config.value) for config in topic.configs],
    )


def _answer(outcome: TopicOutcome, controller: Controller, validate_only: bool) -> dict[str, Any]:
    answer = {"name": outcome.name, **error_fields(outcome.error)}
    if outcome.error is not None:
        return answer
    entries = controller.layers.describe_topic(
        controller.image, outcome.configs, replication_factor=outcome.replication_factor, internal=False
    )
    return answer | {
        "topic_id": None if validate_only else outcome.topic_id,
        "num_partitions": outcome.partitions,
        "replication_factor": outcome.replication_factor,
        "configs": [
            {
                "name": entry.name,
                "value": entry.value,
                "read_only": entry.read_only,
                "config_source": entry.source,
                "is_sensitive": False,
            }
            for entry in entries
        ],
    }
