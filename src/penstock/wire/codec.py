"""Requests and responses of the Kafka protocol, over kio's schemas.

A frame is a 4-byte length and a message; a request message is a header and a body::

    api_key(2) api_version(2) correlation_id(4) client_id(nullable string) [tagged fields] body

and a response is `correlation_id(4) [tagged fields] body`. The tagged fields are there when that version of
the API is "flexible", except that the ApiVersions response never has them: a client that does not know yet
what the broker speaks must be able to read it.

Schemas are loaded when a (key, version) is first seen: all of them at once would cost seconds.
"""

from __future__ import annotations

import io
import struct
from functools import cache, cached_property
from typing import Any, NamedTuple

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError

from penstock.wire.primitives import DecodeError, skip_tagged_fields
from penstock.wire.shapes import Body, lift, lower, missing_array, names_in

PRODUCE_KEY = 0
API_VERSIONS_KEY = 18

_FIXED = struct.Struct(">hhih")
_LENGTH_AND_CORRELATION = struct.Struct(">ii")
_NO_TAGS = b"\x00"


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    end: int  # where the body begins, or the tagged fields if the version is flexible


def read_request_header(frame: bytes | memoryview) -> RequestHeader:
    try:
        key, version, correlation_id, length = _FIXED.unpack_from(frame)
    except struct.error:
        raise DecodeError("frame too short for a request header") from None
    end = _FIXED.size + max(length, 0)
    if length < -1 or end > len(frame):
        raise DecodeError("client id is longer than the frame")
    try:
        client_id = str(frame[_FIXED.size : end], "utf-8")
    except UnicodeDecodeError:
        raise DecodeError("client id is not UTF-8") from None
    return RequestHeader(key, version, correlation_id, client_id, end)


class MessageCodec:
    """Reads requests and writes responses of one API in one version."""

    def __init__(self, api_key: int, version: int, newest: int, versions: range) -> None:
        request_type = load_request_schema(api_key, version)
        self._newest_request_type = (
            request_type if version == newest else load_request_schema(api_key, newest)
        )
        self._read = entity_reader(request_type)
        self._response_type = load_response_schema(api_key, version)
        self._write = entity_writer(self._response_type)
        self._api_key = api_key
        self._version = version
        self._versions = versions
        self.is_flexible: bool = request_type.__flexible__
        self.has_response_tags = self.is_flexible and api_key != API_VERSIONS_KEY

    def read_request(self, frame: bytes | memoryview, header: RequestHeader) -> tuple[Any, Any]:
        """(request as it was sent, the same lifted to the newest version)."""
        position = skip_tagged_fields(frame, header.end) if self.is_flexible else header.end
        try:
            request, _ = self._read(frame, position)
        except (SerialError, ValueError, OverflowError, MemoryError) as error:
            raise DecodeError(f"{type(error).__name__}: {error}") from error
        if (name := missing_array(request)) is not None:
            raise DecodeError(f"{name} is null")
        return request, lift(request, self._newest_request_type)

    def response_prefix(self, correlation_id: int, body_size: int) -> bytes:
        """Frame length and response header for a body that was encoded by hand."""
        tags = _NO_TAGS if self.has_response_tags else b""
        return _LENGTH_AND_CORRELATION.pack(4 + len(tags) + body_size, correlation_id) + tags

    @cached_property
    def response_names(self) -> frozenset[str]:
        """Of all fields that a response may have in some version."""
        return _response_names(self._api_key, self._version, self._versions)

    def write_response(self, correlation_id: int, body: Body) -> bytes:
        buffer = io.BytesIO()
        self._write(buffer, lower(body, self._response_type, self.response_names))
        encoded = buffer.getvalue()
        return self.response_prefix(correlation_id, len(encoded)) + encoded


@cache
def load_codec(api_key: int, version: int, versions: range) -> MessageCodec:
    return MessageCodec(api_key, version, versions[-1], versions)


def _response_names(api_key: int, version: int, versions: range) -> frozenset[str]:
    # A field may exist in the middle of the range only, such as Metadata's cluster_authorized_operations.
    some = {versions[0], version, versions[-1]}
    return frozenset().union(*(names_in(load_response_schema(api_key, each)) for each in some))
