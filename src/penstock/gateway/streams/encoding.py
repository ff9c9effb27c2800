"""A record as JSON: `{"topic", "partition", "offset", "timestamp", "key", "value"}`.

Keys and values are text where they are UTF-8. Where they are not, `key` or `value` is null and `key_base64`
or `value_base64` holds the bytes; a value that is null without that is one that the record does not have.
What is written takes the same shape.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from penstock.kafka.records import ReadRecord


def message_fields(topic: str, record: ReadRecord) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "topic": topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
    }
    put_bytes(fields, "key", record.key)
    put_bytes(fields, "value", record.value)
    return fields


def message_json(topic: str, record: ReadRecord) -> bytes:
    return orjson.dumps(message_fields(topic, record))


def put_bytes(fields: dict[str, Any], name: str, content: bytes | None) -> None:
    if content is None:
        fields[name] = None
        return
    try:
        fields[name] = content.decode()
    except UnicodeDecodeError:
        fields[name] = None
        fields[f"{name}_base64"] = base64.b64encode(content).decode()


def take_bytes(fields: Mapping[str, Any], name: str) -> bytes | None:
    """The other way round; ValueError says what is wrong."""
    text, encoded = fields.get(name), fields.get(f"{name}_base64")
    if encoded is not None:
        if text is not None:
            raise ValueError(f"either {name} or {name}_base64, not both")
        if not isinstance(encoded, str):
            raise ValueError(f"{name}_base64 must be a string")
        try:
            return base64.b64decode(encoded, validate=True)
        except binascii.Error as error:
            raise ValueError(f"{name}_base64 is not base64: {error}") from error
    if text is None:
        return None
    if not isinstance(text, str):
        raise ValueError(f"{name} must be a string or null")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} is not valid Unicode") from error
