"""`WS /v1/topics/{topic}/stream`: a topic as it grows, one frame per message.

What is wrong with the request is answered with HTTP before the connection becomes a WebSocket; what goes
wrong later is a close frame, with a code of closing.py. Whatever the client sends is read and ignored.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect

from penstock.gateway.errors import ApiFailure, failure_response, kafka_failure
from penstock.gateway.kafka.errors import KafkaClientError
from penstock.gateway.queue.topics import check_usable
from penstock.gateway.state import gateway_of
from penstock.gateway.streams.closing import Closing, closing_of
from penstock.gateway.streams.encoding import message_json
from penstock.gateway.streams.following import Outflow, StalledError, first_to_end, follow_topic
from penstock.gateway.streams.start import Positions, find_positions, parse_partition, parse_start
from penstock.gateway.streams.state import streams_of

if TYPE_CHECKING:
    from penstock.kafka.records import ReadRecord

FORMATS: Final = ("json", "bytes")
KIND: Final = "websocket"

router = APIRouter()


@router.websocket("/v1/topics/{topic}/stream")
async def stream(websocket: WebSocket, topic: str) -> None:
    gateway = gateway_of(websocket)
    asked = websocket.query_params
    try:
        check_usable(topic)
        as_bytes = parse_format(asked) == "bytes"
        partition = parse_partition(asked.get("partition"))
        start = parse_start(asked.get("offset"), "end")
        positions = await find_positions(gateway.kafka.reader, topic, partition, start, {})
    except (ApiFailure, KafkaClientError) as error:
        await refuse(websocket, error)
        return
    await websocket.accept()
    metrics = streams_of(websocket).metrics
    with metrics.stream(KIND):
        closing = await send_all(websocket, topic, positions, partition is None, as_bytes)
    if closing is not None:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # it may have gone meanwhile
            await websocket.close(*closing)


def parse_format(asked: Mapping[str, str]) -> str:
    named = asked.get("format") or "json"
    if named not in FORMATS:
        raise ApiFailure(400, "format must be json or bytes")
    return named


async def refuse(websocket: WebSocket, error: ApiFailure | KafkaClientError) -> None:
    failure = kafka_failure(error) if isinstance(error, KafkaClientError) else error
    response = failure_response(failure.status, failure.message, headers=failure.headers, **failure.fields)
    await websocket.send_denial_response(response)


async def send_all(
    websocket: WebSocket, topic: str, positions: Positions, all_partitions: bool, as_bytes: bool
) -> Closing | None:
    """Until the client goes away (None), or until we have to close."""
    gateway, metrics = gateway_of(websocket), streams_of(websocket).metrics
    outflow = Outflow(gateway.settings.limits.stream_stall_seconds_max)

    async def deliver_json(records: list[ReadRecord]) -> None:
        for record in records:
            await outflow.send(websocket.send_text(message_json(topic, record).decode()))
        metrics.sent(KIND, len(records))

    async def deliver_bytes(records: list[ReadRecord]) -> None:
        for record in records:
            await outflow.send(websocket.send_bytes(record.value or b""))
        metrics.sent(KIND, len(records))

    deliver = deliver_bytes if as_bytes else deliver_json
    try:
        await first_to_end(
            follow_topic(gateway.kafka.reader, topic, positions, deliver, all_partitions=all_partitions),
            outflow.watch(),
            until_gone(websocket),
        )
    except WebSocketDisconnect:
        return None
    except StalledError as error:
        metrics.stalled()
        return closing_of(error)
    except KafkaClientError as error:
        return closing_of(error)
    return None


async def until_gone(websocket: WebSocket) -> None:
    while (await websocket.receive())["type"] != "websocket.disconnect":
        pass
