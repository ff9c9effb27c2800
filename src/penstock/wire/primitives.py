"""The few encodings of the protocol that the hand-written messages need.

Since "flexible" versions, lengths are unsigned varints of length + 1 (0 stands for null) and each struct ends
with tagged fields, of which Penstock sends none; before, lengths are 2 or 4 bytes with -1 for null.
"""

from __future__ import annotations

import struct

NO_TAGS = b"\x00"

_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")


class DecodeError(Exception):
    """The frame is not a request that can be understood; the connection cannot go on."""


def skip_tagged_fields(frame: bytes | memoryview, position: int) -> int:
    count, position = read_unsigned_varint(frame, position)
    for _ in range(count):
        _, position = read_unsigned_varint(frame, position)
        size, position = read_unsigned_varint(frame, position)
        position += size
        if position > len(frame):
            raise DecodeError("tagged field is longer than the frame")
    return position


def read_unsigned_varint(frame: bytes | memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        try:
            byte = frame[position]
        except IndexError:
            raise DecodeError("frame ends inside a varint") from None
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 28:
            raise DecodeError("varint too long")


def unsigned_varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def array_length(count: int, compact: bool) -> bytes:
    return unsigned_varint(count + 1) if compact else _I32.pack(count)


def string(text: str | None, compact: bool) -> bytes:
    if text is None:
        return b"\x00" if compact else b"\xff\xff"
    encoded = text.encode()
    prefix = unsigned_varint(len(encoded) + 1) if compact else _I16.pack(len(encoded))
    return prefix + encoded
