"""The answers of the two busiest endpoints: bytes in, status and bytes out."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import orjson

from penstock.gateway.queue import parameters

if TYPE_CHECKING:
    from penstock.gateway.queue.topic_queue import TopicQueue
    from penstock.kafka.records import ReadRecord


async def produce(queue: TopicQueue, body: bytes) -> tuple[int, bytes]:
    fields = parameters.parse_fields(body)
    partition, offset = await queue.produce(
        parameters.identity(fields, "producer_id"),
        parameters.text(fields, "topic"),
        parameters.text(fields, "message"),
        parameters.request_id(fields),
    )
    return 200, b'{"status":"success","partition":%d,"offset":%d}' % (partition, offset)


async def consume(queue: TopicQueue, query: Sequence[tuple[str, str]], body: bytes) -> tuple[int, bytes]:
    fields = parameters.query_or_body(query, body)
    record = await queue.consume(
        parameters.identity(fields, "consumer_id"),
        parameters.text(fields, "topic"),
        parameters.request_id(fields),
    )
    return (204, b"") if record is None else (200, orjson.dumps(message_of(record)))


def message_of(record: ReadRecord) -> dict[str, Any]:
    """Other clients may have written bytes that are no text, or no value at all."""
    answer: dict[str, Any] = {"status": "success", "message": None, "offset": record.offset}
    if record.value is not None:
        try:
            answer["message"] = record.value.decode()
        except UnicodeDecodeError:
            answer["message"] = base64.b64encode(record.value).decode()
            answer["encoding"] = "base64"
    return answer
