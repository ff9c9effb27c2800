"""Produce by hand: the one request whose bytes must not be copied, and its small answer.

Request, versions 3–8 (version 9 has the same fields in compact form, with tagged fields after each struct)::

    transactional_id(nullable string) acks(2) timeout_ms(4)
    [ name(string) [ index(4) records(nullable bytes) ] ]

Response::

    [ name [ index(4) error_code(2) base_offset(8) log_append_time_ms(8) log_start_offset(8, from 5)
             [ batch_index(4) message ](from 8) error_message(nullable, from 8) ] ] throttle_time_ms(4)
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from penstock.wire.primitives import (
    DecodeError,
    array_length,
    read_unsigned_varint,
    skip_tagged_fields,
    string,
)

_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_ACKS_TIMEOUT = struct.Struct(">hi")
_PARTITION = struct.Struct(">ihqq")
_I64 = struct.Struct(">q")

FLEXIBLE_FROM = 9
ITEMS_MAX = 20_000
"""Topics and partitions in one request: an empty one costs a few bytes to send and far more to read."""


class PartitionData(NamedTuple):
    partition: int
    records: memoryview | None


class TopicData(NamedTuple):
    name: str
    partitions: list[PartitionData]


class ProduceRequest(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[TopicData]


class PartitionAnswer(NamedTuple):
    partition: int
    error_code: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    record_errors: Sequence[int] = ()
    """Places in the batch of the records that are to blame."""


def read_request(frame: bytes | memoryview, position: int, version: int) -> ProduceRequest:
    """Records in the result are views into the frame."""
    reader = _Reader(memoryview(frame), position, version >= FLEXIBLE_FROM)
    try:
        transactional_id = reader.string()
        acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(frame, reader.position)
        reader.position += _ACKS_TIMEOUT.size
        topics = []
        for _ in range(reader.count()):
            name = reader.string()
            if name is None:
                raise DecodeError("a topic without a name")
            partitions = [reader.partition() for _ in range(reader.count())]
            reader.tags()
            topics.append(TopicData(name, partitions))
    except (struct.error, UnicodeDecodeError) as error:
        raise DecodeError(f"produce request: {error}") from None
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


class _Reader:
    __slots__ = ("compact", "frame", "items", "position")

    def __init__(self, frame: memoryview, position: int, compact: bool) -> None:
        self.frame = frame
        self.position = position
        self.compact = compact
        self.items = 0

    def _length(self, form: struct.Struct) -> int:
        if self.compact:
            value, self.position = read_unsigned_varint(self.frame, self.position)
            return value - 1
        (length,) = form.unpack_from(self.frame, self.position)
        self.position += form.size
        return int(length)

    def _take(self, length: int) -> memoryview:
        end = self.position + length
        if length < 0 or end > len(self.frame):
            raise DecodeError("a field is longer than its frame")
        taken = self.frame[self.position : end]
        self.position = end
        return taken

    def string(self) -> str | None:
        length = self._length(_I16)
        return None if length == -1 else str(self._take(length), "utf-8")

    def count(self) -> int:
        count = self._length(_I32)
        self.items += max(count, 0)
        if self.items > ITEMS_MAX:
            raise DecodeError(f"more than {ITEMS_MAX} topics and partitions")
        return count

    def partition(self) -> PartitionData:
        (index,) = _I32.unpack_from(self.frame, self.position)
        self.position += 4
        length = self._length(_I32)
        records = None if length == -1 else self._take(length)
        self.tags()
        return PartitionData(index, records)

    def tags(self) -> None:
        if self.compact:
            self.position = skip_tagged_fields(self.frame, self.position)


def write_response(topics: Sequence[tuple[str, Sequence[PartitionAnswer]]], version: int) -> bytes:
    """The body of the response; the throttle time is always 0."""
    compact = version >= FLEXIBLE_FROM
    tags = b"\x00" if compact else b""
    out = bytearray(array_length(len(topics), compact))
    for name, answers in topics:
        out += string(name, compact)
        out += array_length(len(answers), compact)
        for answer in answers:
            out += _PARTITION.pack(
                answer.partition, answer.error_code, answer.base_offset, answer.log_append_time_ms
            )
            if version >= 5:
                out += _I64.pack(answer.log_start_offset)
            if version >= 8:
                out += array_length(len(answer.record_errors), compact)
                for place in answer.record_errors:
                    out += _I32.pack(place) + string(answer.error_message, compact) + tags
                out += string(answer.error_message, compact)
            out += tags
        out += tags
    out += _I32.pack(0)
    out += tags
    return bytes(out)
