"""The records on the topics of the Flights service, to and from their keys, headers and values. Pure.

    flights.itineraries, flights.airports
        a chunk       key job, header `message` = its number K, value: whole lines of CSV
        the end       key job, header `end` = how many messages there are, no value
    flights.requests
        a request     key job, value {"request": "create" | "delete" | "expire"};
                      with "create" perhaps "fastest_of": "all"
    flights.results
        rows          key job, headers `query` and `rows`, value: lines of CSV without a header line
        the last one  key job, headers `query` and `end` = how many rows there are, no value
        none more     key job, headers `query` and `failed` = why, no value
    flights.heartbeats
        a heartbeat   key name of the service, value {"pid", "host", "state", "at_ms", …}

What a job has become is described in jobs.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from types import UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import orjson

MESSAGE: Final = "message"
END: Final = "end"
QUERY: Final = "query"
ROWS: Final = "rows"
FAILED: Final = "failed"

FastestOf = Literal["many-stopovers", "all"]
"""Which flights of a route query 3 is about, where there is one with three or more stopovers."""
MANY_STOPOVERS: Final = "many-stopovers"
ALL_FLIGHTS: Final = "all"
FASTEST_OF: Final = "fastest_of"

MESSAGES_MAX: Final = 10**9
NUMBER_MAX: Final = 2**53
"""What every reader of JSON can tell from the next one."""

T = TypeVar("T")

Headers = Iterable[tuple[str, bytes | None]]
"""As all clients of Kafka give them."""


class RecordError(ValueError):
    """A record that is not what it should be; the message is one line."""


class Request(StrEnum):
    CREATE = "create"
    DELETE = "delete"
    EXPIRE = "expire"
    """Written by the service itself: time has come to remove what is kept of a job."""


@dataclass(frozen=True, slots=True)
class Chunk:
    message: int


@dataclass(frozen=True, slots=True)
class End:
    messages: int


@dataclass(frozen=True, slots=True)
class ResultRows:
    query: str
    rows: int


@dataclass(frozen=True, slots=True)
class ResultEnd:
    query: str
    rows: int | None
    """None if there will be no more because of `failed`."""
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    service: str
    pid: int
    host: str
    state: str
    """`starting` or `running`."""
    at_ms: int
    started_ms: int
    limits: dict[str, int] = field(default_factory=dict)
    """What the service allows: `job_bytes`, `total_bytes`, `jobs`."""
    batch: int | None = None
    """The last that was done."""

    def to_json(self) -> bytes:
        return orjson.dumps(asdict(self))

    @staticmethod
    def from_json(value: bytes | None) -> Heartbeat:
        try:
            return strictly(Heartbeat, orjson.loads(value or b""))
        except (orjson.JSONDecodeError, TypeError) as error:
            raise RecordError(f"not a heartbeat: {error}") from error


def strictly(kind: type[T], found: Any) -> T:
    """The dataclass with these fields, each of its type; else TypeError. Anybody may write to a topic."""
    if not isinstance(found, dict):
        raise TypeError("no JSON object")
    hints = get_type_hints(kind)
    for name, value in found.items():
        if name not in hints or not _fits(value, hints[name]):
            raise TypeError(f"{name!r:.40} is not what it should be")
    return kind(**found)


def _fits(value: Any, hint: Any) -> bool:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if hint is int:
        return type(value) is int and 0 <= value <= NUMBER_MAX
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in arguments)
    if origin is Literal:
        return value in arguments
    if origin is dict:
        return isinstance(value, dict) and all(_fits(each, arguments[1]) for each in value.values())
    return isinstance(value, hint)


def parse_job(text: str | bytes | None) -> str:
    """The id of a job in the form that is used everywhere: a UUID in lower case with hyphens."""
    try:
        return str(UUID(text.decode() if isinstance(text, bytes) else str(text)))
    except ValueError as error:
        raise RecordError(f"{text!r:.60} is not the UUID of a job") from error


def chunk_headers(message: int) -> list[tuple[str, bytes]]:
    return [(MESSAGE, b"%d" % message)]


def end_headers(messages: int) -> list[tuple[str, bytes]]:
    return [(END, b"%d" % messages)]


def parse_upload(headers: Headers | None) -> Chunk | End:
    found = dict(headers or ())
    if END in found:
        return End(_number(END, found[END]))
    if MESSAGE not in found:
        raise RecordError(f"it has neither the header {MESSAGE!r} nor {END!r}")
    return Chunk(_number(MESSAGE, found[MESSAGE]))


def request_value(request: Request, fastest_of: FastestOf = MANY_STOPOVERS) -> bytes:
    asked = {} if fastest_of == MANY_STOPOVERS else {FASTEST_OF: fastest_of}
    return orjson.dumps({"request": request.value, **asked})


def parse_request(value: bytes | None) -> Request:
    try:
        return Request(orjson.loads(value or b"")["request"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise RecordError(f"not a request: {value!r:.60}") from error


def parse_fastest_of(value: bytes | None) -> FastestOf:
    """Of a request to create a job."""
    try:
        return fastest_of(orjson.loads(value or b"").get(FASTEST_OF, MANY_STOPOVERS))
    except (orjson.JSONDecodeError, AttributeError) as error:
        raise RecordError(f"not a request: {value!r:.60}") from error


def fastest_of(text: Any) -> FastestOf:
    for each in get_args(FastestOf):
        if text == each:
            found: FastestOf = each
            return found
    raise RecordError(f"the fastest of {text!r:.40} are not known: it is {' or '.join(get_args(FastestOf))}")


def rows_headers(query: str, rows: int) -> list[tuple[str, bytes]]:
    return [(QUERY, query.encode()), (ROWS, b"%d" % rows)]


def result_end_headers(end: ResultEnd) -> list[tuple[str, bytes]]:
    if end.failed is not None:
        return [(QUERY, end.query.encode()), (FAILED, end.failed.encode())]
    return [(QUERY, end.query.encode()), (END, b"%d" % (end.rows or 0))]


def parse_result(headers: Headers | None) -> ResultRows | ResultEnd:
    found = dict(headers or ())
    query = (found.get(QUERY) or b"").decode(errors="replace")
    if (failed := found.get(FAILED)) is not None:
        return ResultEnd(query, None, failed.decode(errors="replace"))
    if END in found:
        return ResultEnd(query, _number(END, found[END]))
    return ResultRows(query, _number(ROWS, found.get(ROWS)))


def _number(name: str, text: Any) -> int:
    if not isinstance(text, bytes) or not text.isdigit() or not text.isascii() or len(text) > 10:
        raise RecordError(f"its header {name!r} is {text!r:.30}, which is no number")
    number = int(text)
    if number > MESSAGES_MAX:
        raise RecordError(f"its header {name!r} is more than {MESSAGES_MAX}")
    return number
