"""The other side of the codec: requests that a node sends to another, and the answers it gets.

Both sides are the same version of the same message, so there is nothing to negotiate. Bodies go out as plain
mappings, as handlers answer with them, and come back as kio's classes.
"""

from __future__ import annotations

import io
import struct
from functools import cache
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError

from penstock.wire.describe_transactions import DescribeTransactionsResponse
from penstock.wire.primitives import DecodeError, skip_tagged_fields
from penstock.wire.shapes import Body, lower, names_in

_HEADER = struct.Struct(">ihhih")
_CORRELATION = struct.Struct(">i")
_NO_TAGS = b"\x00"
_OWN_RESPONSES = {(65, 0): DescribeTransactionsResponse}
"""Answers that kio cannot read as they are."""


def response_schema(api_key: int, version: int) -> type[Any]:
    return _OWN_RESPONSES.get((api_key, version)) or load_response_schema(api_key, version)


class Exchange:
    """One API in one version, from the side that asks."""

    def __init__(self, api_key: int, version: int) -> None:
        self.api_key = api_key
        self.version = version
        self._request_type = load_request_schema(api_key, version)
        self._names = names_in(self._request_type)
        self._write = entity_writer(self._request_type)
        self._read = entity_reader(response_schema(api_key, version))
        self._is_flexible: bool = self._request_type.__flexible__

    def request(self, correlation_id: int, client_id: str, body: Body | bytes) -> bytes:
        """A whole frame; as bytes the body is one that was encoded by hand."""
        if not isinstance(body, bytes):
            buffer = io.BytesIO()
            self._write(buffer, lower(body, self._request_type, self._names))
            body = buffer.getvalue()
        return frame_of(self.api_key, self.version, correlation_id, client_id, self._is_flexible, body)

    def response(self, frame: bytes | memoryview) -> Any:
        """The body of an answer; `frame` is without its length."""
        position = _CORRELATION.size
        if self._is_flexible:
            position = skip_tagged_fields(frame, position)
        try:
            response, _ = self._read(frame, position)
        except (SerialError, ValueError, OverflowError, MemoryError) as error:
            raise DecodeError(f"{type(error).__name__}: {error}") from error
        return response


def frame_of(
    api_key: int,
    version: int,
    correlation_id: int,
    client_id: str,
    is_flexible: bool,
    body: bytes | memoryview,
) -> bytes:
    name = client_id.encode()
    tags = _NO_TAGS if is_flexible else b""
    size = _HEADER.size - 4 + len(name) + len(tags) + len(body)
    return b"".join((_HEADER.pack(size, api_key, version, correlation_id, len(name)), name, tags, body))


def correlation_id_of(frame: bytes | memoryview) -> int:
    if len(frame) < _CORRELATION.size:
        raise DecodeError("an answer without a correlation id")
    (correlation_id,) = _CORRELATION.unpack_from(frame)
    return int(correlation_id)


@cache
def load_exchange(api_key: int, version: int) -> Exchange:
    return Exchange(api_key, version)
