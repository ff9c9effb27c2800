"""The protocol's fields: numbers big-endian, strings and arrays with their length in front.

Flexible versions have other lengths ("compact": one more, as a varint), and tagged fields at the ends.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def int8(value: int) -> bytes:
    return struct.pack(">b", value)


def int16(value: int) -> bytes:
    return struct.pack(">h", value)


def int32(value: int) -> bytes:
    return struct.pack(">i", value)


def int64(value: int) -> bytes:
    return struct.pack(">q", value)


def uvarint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def varint(value: int) -> bytes:
    """Zigzag, so that small negative numbers are short too."""
    return uvarint(value << 1 if value >= 0 else (-value << 1) - 1)


def string(text: str) -> bytes:
    data = text.encode()
    return int16(len(data)) + data


def data_bytes(data: bytes) -> bytes:
    return int32(len(data)) + data


def compact_string(text: str) -> bytes:
    data = text.encode()
    return uvarint(len(data) + 1) + data


def array(items: Iterable[bytes]) -> bytes:
    every = list(items)
    return int32(len(every)) + b"".join(every)


def compact_array(items: Iterable[bytes]) -> bytes:
    every = list(items)
    return uvarint(len(every) + 1) + b"".join(every)


class Fields:
    """The fields of an answer, one after the other. ValueError when it is shorter than it should be."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def int8(self) -> int:
        return self._number(">b")

    def int16(self) -> int:
        return self._number(">h")

    def int32(self) -> int:
        return self._number(">i")

    def int64(self) -> int:
        return self._number(">q")

    def uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def string(self) -> str | None:
        return self._text(self.int16())

    def compact_string(self) -> str | None:
        return self._text(self.uvarint() - 1)

    def data_bytes(self) -> bytes:
        """Null is empty."""
        return self._take(max(0, self.int32()))

    def array(self, item: Callable[[], T]) -> list[T]:
        return [item() for _ in range(self.int32())]

    def compact_array(self, item: Callable[[], T]) -> list[T]:
        return [item() for _ in range(self.uvarint() - 1)]

    def tags(self) -> None:
        for _ in range(self.uvarint()):
            self.uvarint()
            self._take(self.uvarint())

    def _text(self, size: int) -> str | None:
        return None if size < 0 else self._take(size).decode()

    def _number(self, form: str) -> int:
        (value,) = struct.unpack(form, self._take(struct.calcsize(form)))
        return int(value)

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) != size:
            raise ValueError("an answer that is cut off")
        self._at += size
        return taken
