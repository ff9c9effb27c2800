"""What a client sends to write: `{"value", "key"?, "partition"?, "sequence"?}` as text, or a value as it is.

`value_base64` and `key_base64` stand for bytes that are not UTF-8. A binary frame is a value alone.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import orjson

from penstock.gateway.streams.encoding import take_bytes
from penstock.gateway.streams.start import INT32_MAX, OFFSET_MAX

FIELDS: Final = frozenset({"value", "value_base64", "key", "key_base64", "partition", "sequence"})


class FrameError(Exception):
    """A frame that cannot be a message; `sequence` is the one that it names, if it does."""

    def __init__(self, message: str, sequence: int | None = None) -> None:
        super().__init__(message)
        self.sequence = sequence


class Frame(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    sequence: int | None = None

    @property
    def size(self) -> int:
        return len(self.value or b"") + len(self.key or b"")


def read_frame(message: Any) -> Frame:
    """Of an ASGI message."""
    if (content := message.get("bytes")) is not None:
        return Frame(content)
    try:
        fields = orjson.loads(message.get("text") or "")
    except orjson.JSONDecodeError as error:
        raise FrameError(f"not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise FrameError("a message must be a JSON object")
    sequence = number(fields, "sequence", OFFSET_MAX, None)
    unknown = fields.keys() - FIELDS
    if unknown:
        raise FrameError(f"unknown field {min(unknown)!r}", sequence)
    if "value" not in fields and "value_base64" not in fields:
        raise FrameError("value is missing", sequence)
    try:
        value, key = take_bytes(fields, "value"), take_bytes(fields, "key")
    except ValueError as error:
        raise FrameError(str(error), sequence) from error
    return Frame(value, key, number(fields, "partition", INT32_MAX, sequence), sequence)


def number(fields: dict[str, Any], name: str, largest: int, sequence: int | None) -> int | None:
    found = fields.get(name)
    if found is None:
        return None
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= largest:
        raise FrameError(f"{name} must be a number from 0 to {largest}", sequence)
    return found


def stored(sequence: int | None, partition: int, offset: int | None, *, duplicate: bool = False) -> bytes:
    """The answer to a message that is stored; `offset` is None if it was too long ago."""
    answer: dict[str, Any] = {} if sequence is None else {"sequence": sequence}
    answer |= {"partition": partition, "offset": offset}
    if duplicate:
        answer["duplicate"] = True
    return orjson.dumps(answer)


def refused(message: str, sequence: int | None, **fields: Any) -> bytes:
    """The answer to a message that is not."""
    answer: dict[str, Any] = {"status": "failure", "message": message, **fields}
    if sequence is not None:
        answer["sequence"] = sequence
    return orjson.dumps(answer)
