"""`WS /v1/topics/{topic}/produce`: a message per frame, an answer per message, in the same order.

Frames and answers are described in frames.py. Messages are on their way while the next is read, up to a
limit; then the client's next frames wait in its network buffers.

With `?client=NAME` messages are numbered by the client (`sequence`), and each is stored once: see
sequenced_session.py. The first frame is then one of ours: `{"client", "partition", "expected"}`, where
`expected` is the number that should come next (in 31 bits; null if any may). Such a client writes to one
partition, the one that it asks for with `&partition=P` or one that is chosen by its name and stays the same.
When the cluster is not available the connection is closed with 1013; the client connects again and repeats
what was not answered.

Without `client` a `sequence` only comes back in the answer, and a message whose answer was lost may be stored
again when it is repeated.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any, Final

import orjson
from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect

from penstock.gateway.errors import ApiFailure
from penstock.gateway.kafka.errors import KafkaClientError, UnknownPartitionError
from penstock.gateway.queue.topics import check_usable
from penstock.gateway.state import gateway_of
from penstock.gateway.streams.closing import closing_of
from penstock.gateway.streams.following import Outflow, StalledError, first_to_end
from penstock.gateway.streams.frames import FrameError, read_frame, refused
from penstock.gateway.streams.sequenced_session import SequencedSession
from penstock.gateway.streams.sessions import Answer, NumberedSession, PlainSession, Session
from penstock.gateway.streams.socket_stream import refuse
from penstock.gateway.streams.start import parse_partition
from penstock.gateway.streams.state import streams_of
from penstock.gateway.streams.window import Window

if TYPE_CHECKING:
    from penstock.gateway.settings import GatewayLimits

CLIENT_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")

router = APIRouter()


@router.websocket("/v1/topics/{topic}/produce")
async def produce(websocket: WebSocket, topic: str) -> None:
    gateway = gateway_of(websocket)
    hello: dict[str, Any] | None = None
    try:
        check_usable(topic)
        partition = parse_partition(websocket.query_params.get("partition"))
        if partition not in (None, *await gateway.kafka.reader.partitions(topic)):
            raise UnknownPartitionError(topic, partition or 0)
        name = websocket.query_params.get("client")
        if name is None:
            session: Session = PlainSession(gateway.kafka.producer, topic, partition)
        else:
            session, hello = await open_numbered(websocket, topic, name, partition)
    except (ApiFailure, KafkaClientError) as error:
        await refuse(websocket, error)
        return
    await websocket.accept()
    try:
        if hello is not None:
            await websocket.send_text(orjson.dumps(hello).decode())
        with streams_of(websocket).metrics.stream("produce"):
            await exchange(websocket, session, gateway.settings.limits)
    except WebSocketDisconnect:
        return
    except (KafkaClientError, StalledError) as error:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # it may have gone meanwhile
            await websocket.close(*closing_of(error))


async def open_numbered(
    websocket: WebSocket, topic: str, name: str, partition: int | None
) -> tuple[NumberedSession, dict[str, Any]]:
    """A session for a client that numbers its messages, and what it should know first."""
    if not CLIENT_NAME.fullmatch(name):
        raise ApiFailure(400, "client must be 1 to 128 letters, digits, dots, dashes and underscores")
    streams, reader = streams_of(websocket), gateway_of(websocket).kafka.reader
    client = await streams.clients.find(topic, name, partition)
    sequenced = SequencedSession(streams.writer, reader, topic, name, client)
    expected = await sequenced.begin()
    return NumberedSession(sequenced), {"client": name, "partition": client.partition, "expected": expected}


async def exchange(websocket: WebSocket, session: Session, limits: GatewayLimits) -> None:
    """Until the client goes away, or something goes wrong."""
    window = Window(limits.socket_messages_in_flight_max, limits.socket_bytes_in_flight_max)
    outflow = Outflow(limits.stream_stall_seconds_max)
    metrics = streams_of(websocket).metrics

    async def read() -> None:
        while (message := await websocket.receive())["type"] != "websocket.disconnect":
            try:
                frame = read_frame(message)
            except FrameError as error:
                await window.take(0)
                session.accept(Answer(refused(str(error), error.sequence), 0))
            else:
                await window.take(frame.size)
                session.accept(frame)

    async def answer() -> None:
        while True:
            for each in await session.next_answers():
                await outflow.send(websocket.send_text(each.text.decode()))
                window.release(each.size)
                metrics.answered(1)

    await first_to_end(read(), answer(), outflow.watch())
