"""Strict parsing of what the gateway's own logs hold: anybody who reaches the brokers can write to them.

A record that no gateway wrote means nothing, to every gateway alike.
"""

from __future__ import annotations

from typing import Any, Final, TypeGuard

import orjson

INT64_MAX: Final = 2**63 - 1


class MalformedRecordError(Exception):
    """The record is not one of ours; the message says why."""


def decode(value: bytes) -> Any:
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise MalformedRecordError(f"not JSON: {error}") from None


def require(holds: bool, what: str) -> None:
    if not holds:
        raise MalformedRecordError(what)


def is_number(value: object, least: int = 0) -> TypeGuard[int]:
    """A 64-bit integer from `least` on; `true` is none, whatever Python says."""
    return type(value) is int and least <= value <= INT64_MAX


def is_text(value: object, length_max: int) -> TypeGuard[str]:
    return isinstance(value, str) and len(value) <= length_max
