"""The topic queue's endpoints, for the framework. See hot_paths for the two that are used the most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from penstock.gateway.access import Level
from penstock.gateway.errors import JSON, ApiFailure
from penstock.gateway.kafka.errors import TopicExistsError
from penstock.gateway.queue import answers, parameters
from penstock.gateway.queue import documentation as doc
from penstock.gateway.queue.registry import Kind
from penstock.gateway.safety import level_of
from penstock.gateway.state import gateway_of

if TYPE_CHECKING:
    from penstock.gateway.queue.topic_queue import TopicQueue

router = APIRouter(tags=["topic queue"])

GET_NOTE = " The parameters may also come as a JSON body."


def queue_of(request: Request) -> TopicQueue:
    return gateway_of(request).queue


def success(status: int = 200, /, **fields: Any) -> Response:
    return Response(orjson.dumps({"status": "success", **fields}), status, media_type=JSON)


@router.get(
    "/topics",
    summary="List the topics",
    responses=doc.responses(doc.answer("All topics", topics={"type": "array", "items": {"type": "string"}})),
)
async def list_topics(request: Request) -> Response:
    return success(topics=await queue_of(request).topics())


@router.post(
    "/topics",
    summary="Create a topic",
    status_code=201,
    responses=doc.responses(doc.answer("Created", message={"type": "string"}), 409, status=201),
    openapi_extra=doc.json_body(topic_name=doc.TOPIC),
)
async def create_topic(request: Request) -> Response:
    topic = parameters.text(await parameters.body_fields(request), "topic_name")
    try:
        await queue_of(request).create_topic(topic)
    except TopicExistsError:
        raise ApiFailure(409, f"topic {topic!r} exists already") from None
    return success(201, message=f"topic {topic!r} created")


@router.post(
    "/producer/register",
    summary="Become a producer of a topic, which is created if needed",
    responses=doc.responses(doc.answer("Registered", producer_id=doc.IDENTITY)),
    openapi_extra=doc.json_body(topic=doc.TOPIC),
)
async def register_producer(request: Request) -> Response:
    topic = parameters.text(await parameters.body_fields(request), "topic")
    return success(producer_id=await queue_of(request).register(Kind.PRODUCER, topic))


@router.post(
    "/consumer/register",
    summary="Become a consumer of a topic, which is created if needed; it reads from the beginning",
    description="A token for read is enough if the topic is there.",
    responses=doc.responses(doc.answer("Registered", consumer_id=doc.IDENTITY)),
    openapi_extra=doc.json_body(topic=doc.TOPIC),
)
async def register_consumer(request: Request) -> Response:
    topic = parameters.text(await parameters.body_fields(request), "topic")
    may_create = level_of(request.scope) >= Level.WRITE
    identity = await queue_of(request).register(Kind.CONSUMER, topic, may_create=may_create)
    return success(consumer_id=identity)


@router.post(
    "/producer/produce",
    summary="Store a message",
    description="All messages of a producer go to the same partition of the topic, in order.",
    responses=doc.responses(
        doc.answer("Stored by all replicas in sync", partition=doc.OFFSET, offset=doc.OFFSET), 404
    ),
    openapi_extra=doc.json_body(
        "request_id",
        topic=doc.TOPIC,
        producer_id=doc.IDENTITY,
        message=doc.MESSAGE,
        request_id=doc.REQUEST_ID,
    ),
)
async def produce(request: Request) -> Response:
    status, body = await answers.produce(queue_of(request), await request.body())
    return Response(body, status, media_type=JSON)


@router.get(
    "/consumer/consume",
    summary="Get the next message",
    description="Each message is handed out once for each consumer id, in order for each partition."
    + GET_NOTE,
    responses=doc.responses(
        doc.answer(
            "The message; `encoding` is `base64` if it is not UTF-8",
            message={"type": ["string", "null"]},
            offset=doc.OFFSET,
            encoding={"const": "base64"},
        ),
        404,
        410,
    )
    | {204: {"description": "Nothing is left"}},
    openapi_extra=doc.query(
        "request_id", topic=doc.TOPIC, consumer_id=doc.IDENTITY, request_id=doc.REQUEST_ID
    ),
)
async def consume(request: Request) -> Response:
    query = request.query_params.multi_items()
    status, body = await answers.consume(queue_of(request), query, await request.body())
    return Response(body or None, status, media_type=JSON if body else None)


@router.get(
    "/size",
    summary="How many messages are left",
    description="Messages that are committed, in all partitions. The first question about a topic reads all "
    "that is left; what was counted is remembered, except of compacted topics. `at_most` ends it there."
    + GET_NOTE,
    responses=doc.responses(doc.answer("The number", size=doc.OFFSET), 404),
    openapi_extra=doc.query("at_most", topic=doc.TOPIC, consumer_id=doc.IDENTITY, at_most=doc.AT_MOST),
)
async def size(request: Request) -> Response:
    fields = parameters.query_or_body(request.query_params.multi_items(), await request.body())
    consumer = parameters.identity(fields, "consumer_id")
    topic, at_most = parameters.text(fields, "topic"), parameters.at_most(fields)
    return success(size=await queue_of(request).size(consumer, topic, at_most))
