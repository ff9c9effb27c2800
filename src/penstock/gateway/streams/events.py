"""`GET /v1/topics/{topic}/events`: the same stream as Server-Sent Events.

Each message is an event with the JSON of the WebSocket stream as its data. Its id is `PARTITION:OFFSET`; when
several partitions are followed, it has one such pair for each, separated by commas, so that a browser that
connects again (it sends the last id as `Last-Event-ID`) goes on exactly where it was in all of them. A
comment is sent now and then, so that both sides notice when the other is gone. What ends the stream is told
in an event `error`, as far as the reader takes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from penstock.gateway.queue.topics import check_usable
from penstock.gateway.routes import documentation as doc
from penstock.gateway.state import gateway_of
from penstock.gateway.streams.encoding import message_json
from penstock.gateway.streams.event_stream import EVENTS_TYPE, Emit, EventStream, event
from penstock.gateway.streams.following import follow_topic
from penstock.gateway.streams.start import (
    event_id,
    find_positions,
    parse_event_id,
    parse_partition,
    parse_start,
)
from penstock.gateway.streams.state import streams_of

if TYPE_CHECKING:
    from penstock.kafka.records import ReadRecord

KIND: Final = "events"

router = APIRouter(tags=["streams"])


@router.get(
    "/v1/topics/{topic}/events",
    summary="Follow a topic as Server-Sent Events",
    response_class=Response,
    responses=doc.responses("Events without end", doc.TEXT, 404, media_type=EVENTS_TYPE),
)
async def events(
    request: Request,
    topic: doc.TopicName,
    offset: Annotated[str | None, Query(description="a number, `beginning` or `end` (the default)")] = None,
    partition: Annotated[str | None, Query(description="one of them; else all are followed")] = None,
    last_event_id: Annotated[
        str | None, Header(description="the id of the last event that was seen; counts more than offset")
    ] = None,
) -> Response:
    gateway = gateway_of(request)
    check_usable(topic)
    number = parse_partition(partition)
    seen = parse_event_id(last_event_id) if last_event_id else {}
    reader = gateway.kafka.reader
    positions = await find_positions(reader, topic, number, parse_start(offset, "end"), seen)
    told = dict(positions)
    metrics = streams_of(request).metrics

    async def follow(emit: Emit) -> None:
        async def deliver(records: list[ReadRecord]) -> None:
            parts = []
            for record in records:
                told[record.partition] = record.offset + 1
                parts.append(event(message_json(topic, record), event_id=event_id(told)))
            await emit(b"".join(parts))
            metrics.sent(KIND, len(records))

        with metrics.stream(KIND):
            await follow_topic(reader, topic, positions, deliver, all_partitions=number is None)

    return EventStream(follow, streams_of(request), gateway_of(request).settings.limits)
