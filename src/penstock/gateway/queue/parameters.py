"""What requests of the topic queue say: fields of a JSON body, or a query for those that are GET."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from penstock.gateway.errors import ApiFailure
from penstock.gateway.queue.positions import REQUEST_ID_LENGTH_MAX

if TYPE_CHECKING:
    from starlette.requests import Request

ID_MAX: Final = 2**63 - 1
NUMBERS: Final = ("consumer_id", "at_most")
DIGITS: Final = re.compile("[0-9]{1,19}")

Fields = dict[str, Any]


async def body_fields(request: Request) -> Fields:
    return parse_fields(await request.body())


def parse_fields(body: bytes) -> Fields:
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ApiFailure(400, f"the body is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ApiFailure(400, "the body is not a JSON object")
    return fields


def query_or_body(query: Sequence[tuple[str, str]], body: bytes) -> Fields:
    """The query counts where both name a field. In a query, a number is its digits."""
    fields = parse_fields(body) if body else {}
    for name, value in query:
        is_number = name in NUMBERS and DIGITS.fullmatch(value) is not None
        fields[name] = int(value) if is_number else value
    return fields


def text(fields: Fields, name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise ApiFailure(400, f"{name!r} is missing" if name not in fields else f"{name!r} is not a string")
    return value


def identity(fields: Fields, name: str) -> int:
    value = fields.get(name)
    if name not in fields:
        raise ApiFailure(400, f"{name!r} is missing")
    if type(value) is not int or not 0 < value <= ID_MAX:
        raise ApiFailure(400, f"{name!r} is not a positive integer")
    return value


def at_most(fields: Fields) -> int | None:
    return None if fields.get("at_most") is None else identity(fields, "at_most")


def request_id(fields: Fields) -> str | None:
    value = fields.get("request_id")
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= REQUEST_ID_LENGTH_MAX:
        raise ApiFailure(400, f"'request_id' is not a string of 1 to {REQUEST_ID_LENGTH_MAX} characters")
    return value
