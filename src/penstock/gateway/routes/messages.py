"""`GET /v1/topics/{topic}/messages`: messages of a partition, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.gateway.queue.topics import check_usable
from penstock.gateway.routes import documentation as doc
from penstock.gateway.routes.answers import json_answer
from penstock.gateway.state import gateway_of
from penstock.gateway.streams.encoding import message_fields, put_bytes
from penstock.gateway.streams.start import choose, parse_number, parse_partition, parse_start

if TYPE_CHECKING:
    from penstock.gateway.kafka.reader import LogReader
    from penstock.kafka.records import ReadRecord

router = APIRouter(tags=["topics"])

LIMIT: Final = 100
FETCH_BYTES: Final = 256 * 1024
BEHIND_WAIT_MS: Final = 100
"""For what is known to be there, at a replica that does not have it yet."""
PAGE: Final = doc.thing(
    topic=doc.TEXT,
    partition=doc.NUMBER,
    start={**doc.NUMBER, "description": "the first offset of the partition"},
    end={**doc.NUMBER, "description": "the offset after its last"},
    next_offset={**doc.NUMBER, "description": "where the next page begins"},
    messages=doc.several(doc.MESSAGE),
)


@router.get(
    "/v1/topics/{topic}/messages",
    summary="Read messages of a topic",
    responses=doc.responses("The messages from there on", PAGE, 404),
    openapi_extra=doc.query(
        offset={
            "type": "string",
            "description": "A number, `beginning` (the default), or `end` for the last messages.",
        },
        partition={"type": "integer", "minimum": 0, "default": 0},
        limit={"type": "integer", "minimum": 1, "default": LIMIT},
    ),
)
async def read_messages(request: Request, topic: doc.TopicName) -> Response:
    gateway = gateway_of(request)
    check_usable(topic)
    asked, limits, reader = request.query_params, gateway.settings.limits, gateway.kafka.reader
    partition = parse_partition(asked.get("partition")) or 0
    text = asked.get("limit")
    limit = max(1, parse_number(text, "limit", limits.messages_max)) if text else LIMIT
    start = parse_start(asked.get("offset"), "beginning")
    offsets = await reader.offsets(topic, partition)
    if start == "end":
        start = max(offsets.start, offsets.end - limit)
    offset = choose(topic, partition, start, offsets)
    records, next_offset = await read_page(
        reader, topic, partition, offset, offsets.end, limit, limits.messages_bytes_max
    )
    page = {
        "topic": topic,
        "partition": partition,
        "start": offsets.start,
        "end": offsets.end,
        "next_offset": next_offset,
        "messages": [with_headers(topic, record) for record in records],
    }
    return json_answer(page)


async def read_page(
    reader: LogReader, topic: str, partition: int, offset: int, end: int, limit: int, bytes_max: int
) -> tuple[list[ReadRecord], int]:
    """Up to `limit` records before `end`, and the offset after them."""
    page: list[ReadRecord] = []
    size = 0
    while offset < end:
        fetched = await reader.fetch(
            topic, partition, offset, max_bytes=min(FETCH_BYTES, bytes_max), wait_ms=BEHIND_WAIT_MS
        )
        if fetched.next_offset == offset:
            break  # the rest was deleted, or is not there yet
        for record in fetched.records:
            size += record.size
            if record.offset >= end or len(page) == limit or (page and size > bytes_max):
                return page, page[-1].offset + 1 if page else record.offset
            page.append(record)
        offset = fetched.next_offset
    return page, offset


def with_headers(topic: str, record: ReadRecord) -> dict[str, Any]:
    fields = message_fields(topic, record)
    if record.headers:
        fields["headers"] = [header_fields(name, value) for name, value in record.headers]
    return fields


def header_fields(name: str, value: bytes | None) -> dict[str, Any]:
    # A name that is not UTF-8 is shown as well as it can be.
    fields: dict[str, Any] = {"name": name.encode(errors="surrogateescape").decode(errors="replace")}
    put_bytes(fields, "value", value)
    return fields
