"""Records inside a batch: written by Penstock for its own topics, read where a batch must be opened.

A record is a length-prefixed sequence of zig-zag varints and byte strings::

    length attributes(1 byte) timestamp_delta offset_delta key_length key value_length value
    headers_count (key_length key value_length value)*

A length of -1 stands for null.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from crc32c import crc32c

from penstock.wire import compression
from penstock.wire.batch import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LENGTH_PREFIX_SIZE,
    BatchHeader,
    read_header,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Headers = tuple[tuple[str, bytes | None], ...]


class RecordsError(Exception):
    """The records of a batch contradict their own lengths."""


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def encode_batch(
    records: Sequence[Record],
    *,
    codec: int = compression.NONE,
    attributes: int = 0,
    base_offset: int | None = None,
    last_offset: int | None = None,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    max_timestamp: int | None = None,
) -> bytes:
    """One batch holding `records`, whose offsets must ascend.

    Compaction passes the original `base_offset` and `last_offset` so that a batch keeps its range when
    records leave it; elsewhere both follow from the records. An empty batch needs both.
    """
    if not records and (base_offset is None or last_offset is None):
        raise ValueError("an empty batch needs base_offset and last_offset")
    first = records[0].offset if base_offset is None else base_offset
    last = records[-1].offset if last_offset is None else last_offset
    base_timestamp = records[0].timestamp if records else -1
    if max_timestamp is None:
        max_timestamp = max((record.timestamp for record in records), default=-1)
    body = bytearray()
    for record in records:
        _write_record(body, record, record.offset - first, record.timestamp - base_timestamp)
    payload = compression.compress(codec, bytes(body))
    batch = bytearray(HEADER_SIZE)
    HEADER.pack_into(
        batch, 0,
        first, HEADER_SIZE - LENGTH_PREFIX_SIZE + len(payload), leader_epoch, 2, 0, attributes | codec,
        last - first, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, len(records),
    )  # fmt: skip
    batch += payload
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[CRC_START:]))
    return bytes(batch)


def decode_records(batch: bytes | memoryview, header: BatchHeader | None = None) -> Iterator[Record]:
    """The records of one whole batch. Raises RecordsError or CompressionError on damaged content."""
    header = header or read_header(batch)
    view = memoryview(batch)[HEADER_SIZE : header.size]
    body = bytes(view) if header.codec == 0 else compression.decompress(header.codec, view)
    position = 0
    try:
        for _ in range(header.records_count):
            length, position = read_varint(body, position)
            end = position + length
            if length < 0 or end > len(body):
                raise RecordsError("a record is longer than its batch")
            yield _read_record(body, position, end, header)
            position = end
    except IndexError:
        raise RecordsError("the batch ends inside a record") from None


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """A zig-zag varint at `position`: (value, position after it)."""
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    value = byte & 0x7F
    shift = 7
    while byte & 0x80:
        if shift > 63:
            raise RecordsError("varint too long")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1), position


def write_varint(out: bytearray, value: int) -> None:
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def _read_record(body: bytes, position: int, end: int, header: BatchHeader) -> Record:
    position += 1  # attributes, unused
    timestamp_delta, position = read_varint(body, position)
    offset_delta, position = read_varint(body, position)
    key, position = _read_bytes(body, position, end)
    value, position = _read_bytes(body, position, end)
    count, position = read_varint(body, position)
    headers = []
    for _ in range(count):
        name, position = _read_bytes(body, position, end)
        content, position = _read_bytes(body, position, end)
        headers.append(((name or b"").decode("utf-8", "surrogateescape"), content))
    if position != end:
        raise RecordsError("a record's length does not match its content")
    timestamp = header.max_timestamp if header.is_log_append_time else header.base_timestamp + timestamp_delta
    return Record(header.base_offset + offset_delta, timestamp, key, value, tuple(headers))


def _read_bytes(body: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(body, position)
    if length < 0:
        return None, position
    if position + length > end:
        raise RecordsError("a field is longer than its record")
    return body[position : position + length], position + length


def _write_bytes(out: bytearray, data: bytes | None) -> None:
    if data is None:
        write_varint(out, -1)
    else:
        write_varint(out, len(data))
        out += data


def _write_record(out: bytearray, record: Record, offset_delta: int, timestamp_delta: int) -> None:
    body = bytearray(b"\x00")
    write_varint(body, timestamp_delta)
    write_varint(body, offset_delta)
    _write_bytes(body, record.key)
    _write_bytes(body, record.value)
    write_varint(body, len(record.headers))
    for name, content in record.headers:
        _write_bytes(body, name.encode("utf-8", "surrogateescape"))
        _write_bytes(body, content)
    write_varint(out, len(body))
    out += body
