"""A chunk from the body of a request, read as it comes and no further than it may be, to its topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

import orjson

from penstock.flights.chunks import CHUNK_BYTES_MAX
from penstock.flights.jobs import FILES
from penstock.flights.records import MESSAGES_MAX, RecordError, parse_job
from penstock.gateway.errors import ApiFailure
from penstock.gateway.queue.hot_paths import ClientGoneError
from penstock.gateway.streams.start import parse_number

if TYPE_CHECKING:
    from penstock.gateway.flights.state import Flights
    from penstock.gateway.flights.uploading import Taken
    from penstock.gateway.safety import Receive, Scope

TOO_LARGE: Final = f"a chunk may have {CHUNK_BYTES_MAX} bytes"


class ChunkTooLarge(ApiFailure):
    def __init__(self) -> None:
        # What is on its way would be taken for the next request.
        super().__init__(413, TOO_LARGE, headers={"connection": "close"})


async def take_chunk(flights: Flights, scope: Scope, receive: Receive, job: str, file: str) -> bytes:
    """The JSON to be answered; ApiFailure or an error of Kafka if it is not taken."""
    job, file = job_id(job), file_name(file)
    asked = parse_qs(scope["query_string"].decode("latin-1")).get("message")
    if asked is None:
        raise ApiFailure(400, "which message of the file is it? ?message=K")
    message = parse_number(asked[-1], "message", MESSAGES_MAX - 1)
    await flights.find(job)
    try:
        taken = await flights.uploader.put(
            job, file, message, announced_size(scope), lambda: read_chunk(receive)
        )
    except ChunkTooLarge:
        flights.metrics.refused("too large")
        raise
    return orjson.dumps(taken_fields(taken))


def taken_fields(taken: Taken) -> dict[str, Any]:
    return {"next": taken.next, "duplicate": True} if taken.is_duplicate else {"next": taken.next}


def announced_size(scope: Scope) -> int:
    """What the body will have, as far as that is said; ChunkTooLarge if that is too much already."""
    size = next((int(value) for name, value in scope["headers"] if name == b"content-length"), 0)
    if size > CHUNK_BYTES_MAX:
        raise ChunkTooLarge
    return size


async def read_chunk(receive: Receive) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        piece: bytes = message.get("body", b"")
        size += len(piece)
        if size > CHUNK_BYTES_MAX:
            raise ChunkTooLarge
        pieces.append(piece)
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def job_id(text: Any) -> str:
    try:
        return parse_job(text)
    except RecordError as error:
        raise ApiFailure(400, str(error)) from None


def file_name(text: str) -> str:
    if text not in FILES:
        raise ApiFailure(404, f"there is no file {text!r:.20}; there are {' and '.join(FILES)}")
    return text
