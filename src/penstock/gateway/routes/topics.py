"""`/v1/topics`: create, describe, configure and delete topics."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.gateway.errors import ApiFailure
from penstock.gateway.kafka.errors import KafkaClientError, TopicExistsError
from penstock.gateway.queue.documentation import TOPIC
from penstock.gateway.queue.parameters import Fields, body_fields, text
from penstock.gateway.queue.topics import check_usable
from penstock.gateway.routes import documentation as doc
from penstock.gateway.routes.answers import done, json_answer
from penstock.gateway.state import gateway_of

if TYPE_CHECKING:
    from penstock.gateway.kafka.admin import PartitionInfo
    from penstock.gateway.kafka.clients import Kafka

router = APIRouter(prefix="/v1/topics", tags=["topics"])

PARTITIONS_MAX: Final = 10_000
REPLICAS_MAX: Final = 1_000
CREATION_S_MAX: Final = 10.0
CREATION: Final = doc.thing(
    "partitions",
    "replicas",
    "config",
    name=TOPIC,
    partitions={"type": "integer", "minimum": 1, "maximum": PARTITIONS_MAX, "default": 1},
    replicas={"type": "integer", "minimum": 1, "maximum": REPLICAS_MAX},
    config=doc.CHANGES,
)
LISTED: Final = doc.thing(name=doc.TEXT, partitions=doc.several(doc.PARTITION))


@router.get(
    "",
    summary="List the topics with their partitions",
    responses=doc.responses("All topics", doc.thing(topics=doc.several(LISTED))),
)
async def list_topics(request: Request) -> Response:
    topics = await gateway_of(request).kafka.admin.topics()
    listed = [
        {"name": name, "partitions": [partition_fields(each) for each in partitions]}
        for name, partitions in topics.items()
    ]
    return json_answer({"topics": listed})


@router.post(
    "",
    summary="Create a topic",
    status_code=201,
    responses=doc.responses("Created", doc.TOPIC_DETAILS, 409, status=201),
    openapi_extra=doc.json_body(CREATION),
)
async def create_topic(request: Request) -> Response:
    gateway = gateway_of(request)
    fields = await body_fields(request)
    name = text(fields, "name")
    check_usable(name)
    try:
        await gateway.kafka.admin.create_topic(
            name,
            partitions=count(fields, "partitions", PARTITIONS_MAX) or 1,
            replicas=count(fields, "replicas", REPLICAS_MAX),
            config={key: value for key, value in settings(fields).items() if value is not None},
        )
    except TopicExistsError:
        raise ApiFailure(409, f"topic {name!r} exists already") from None
    gateway.kafka.reader.forget(name)
    await gateway.kafka.reader.partitions(name, wait_s=CREATION_S_MAX)
    return json_answer(await describe(gateway.kafka, name), 201)


@router.get(
    "/{topic}",
    summary="A topic: partitions, offsets and settings",
    responses=doc.responses("The topic", doc.TOPIC_DETAILS, 404),
)
async def describe_topic(request: Request, topic: doc.TopicName) -> Response:
    check_usable(topic)
    return json_answer(await describe(gateway_of(request).kafka, topic))


@router.patch(
    "/{topic}",
    summary="Change settings of a topic; null goes back to the default",
    responses=doc.responses("The topic as it is now", doc.TOPIC_DETAILS, 404),
    openapi_extra=doc.json_body(doc.thing(config=doc.CHANGES)),
)
async def configure_topic(request: Request, topic: doc.TopicName) -> Response:
    kafka = gateway_of(request).kafka
    check_usable(topic)
    fields = await body_fields(request)
    if "config" not in fields:
        raise ApiFailure(400, "'config' is missing")
    await kafka.admin.describe(topic)  # an unknown topic is the clearer complaint
    changes = settings(fields)
    if changes:
        await kafka.admin.alter_configs(topic, changes)
    return json_answer(await describe(kafka, topic))


@router.delete(
    "/{topic}",
    summary="Delete a topic with all its messages",
    responses=doc.responses("Deleted", doc.DONE, 404),
)
async def delete_topic(request: Request, topic: doc.TopicName) -> Response:
    kafka = gateway_of(request).kafka
    check_usable(topic)
    await kafka.admin.delete_topic(topic)
    kafka.reader.forget(topic)
    return done(f"topic {topic!r} deleted")


def count(fields: Fields, name: str, largest: int) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if type(value) is not int or not 1 <= value <= largest:
        raise ApiFailure(400, f"{name!r} is not a number from 1 to {largest}")
    return value


def settings(fields: Fields) -> dict[str, str | None]:
    """Numbers and flags may be written as such."""
    config = fields.get("config")
    if config is None:
        return {}
    if not isinstance(config, dict):
        raise ApiFailure(400, "'config' is not an object")
    found: dict[str, str | None] = {}
    for name, value in config.items():
        if value is not None and not isinstance(value, str | int | float):
            raise ApiFailure(400, f"the value of {name!r} is not a string")
        text_value = str(value).lower() if isinstance(value, bool) else value
        found[name] = None if text_value is None else str(text_value)
    return found


async def describe(kafka: Kafka, topic: str) -> dict[str, Any]:
    partitions = await kafka.admin.describe(topic)
    config = await kafka.admin.configs(topic)
    ends = await asyncio.gather(*(offsets(kafka, topic, each) for each in partitions))
    return {
        "name": topic,
        "partitions": [
            partition_fields(each) | limits for each, limits in zip(partitions, ends, strict=True)
        ],
        "config": {
            name: {
                "value": None if entry.is_sensitive else entry.value,
                "source": entry.source,
                "read_only": entry.is_read_only,
                "sensitive": entry.is_sensitive,
            }
            for name, entry in config.items()
        },
    }


async def offsets(kafka: Kafka, topic: str, partition: PartitionInfo) -> dict[str, int | None]:
    if partition.leader is None:
        return {"start": None, "end": None}
    try:
        found = await kafka.reader.offsets(topic, partition.partition)
    except KafkaClientError:  # it has lost its leader, or was deleted, meanwhile
        return {"start": None, "end": None}
    return {"start": found.start, "end": found.end}


def partition_fields(partition: PartitionInfo) -> dict[str, Any]:
    return {
        "partition": partition.partition,
        "leader": partition.leader,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
    }
