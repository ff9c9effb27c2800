"""Fields of the records that coordinators keep in their internal topics, as Kafka writes them.

A string is length(2) and UTF-8, bytes are length(4) and content, -1 stands for null; integers are big-endian.
"""

from __future__ import annotations

import struct

STRING_BYTES_MAX = 32_767


class RecordError(Exception):
    """The bytes are not what the record should hold."""


def fits(text: str) -> bool:
    """Whether a record can hold the string; newer versions of requests can hold longer ones."""
    return len(text) <= STRING_BYTES_MAX and len(text.encode()) <= STRING_BYTES_MAX


def int16(value: int) -> bytes:
    return struct.pack(">h", value)


def string(text: str | None) -> bytes:
    if text is None:
        return int16(-1)
    data = text.encode()
    return int16(len(data)) + data


def with_length(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


class FieldReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def _take(self, size: int) -> bytes:
        if size < 0 or self._position + size > len(self._data):
            raise RecordError("the record ends inside a field")
        start, self._position = self._position, self._position + size
        return self._data[start : self._position]

    def int8(self) -> int:
        return int.from_bytes(self._take(1), signed=True)

    def int16(self) -> int:
        return int.from_bytes(self._take(2), signed=True)

    def int32(self) -> int:
        return int.from_bytes(self._take(4), signed=True)

    def int64(self) -> int:
        return int.from_bytes(self._take(8), signed=True)

    def maybe_string(self) -> str | None:
        length = self.int16()
        if length == -1:
            return None
        try:
            return self._take(length).decode()
        except UnicodeDecodeError:
            raise RecordError("a string is not UTF-8") from None

    def string(self) -> str:
        text = self.maybe_string()
        if text is None:
            raise RecordError("a string that must be there is null")
        return text

    def bytes(self) -> bytes:
        return self._take(self.int32())

    def end(self) -> None:
        if self._position != len(self._data):
            raise RecordError("the record goes on after its last field")
