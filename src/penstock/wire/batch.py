"""The 61-byte header of a version-2 record batch, read and patched without touching what follows.

A batch is opaque to the broker: producers build it, consumers open it, and the broker carries the bytes.
All it ever needs is in the fixed header::

    offset  size  field
         0     8  base_offset              assigned by the leader
         8     4  batch_length             bytes that follow this field
        12     4  partition_leader_epoch   assigned by the leader
        16     1  magic                    2
        17     4  crc                      CRC-32C of everything from `attributes` on
        21     2  attributes               0-2 codec, 3 timestamp type, 4 transactional, 5 control
        23     4  last_offset_delta
        27     8  base_timestamp
        35     8  max_timestamp
        43     8  producer_id
        51     2  producer_epoch
        53     4  base_sequence
        57     4  records_count
        61        records

What the leader assigns lies in the first 16 bytes, before the CRC's range, so it is patched in place and
the checksum that the producer computed protects the records for as long as they are stored.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from crc32c import crc32c

from penstock.types import ApiError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

Buffer = bytes | bytearray | memoryview

HEADER_SIZE = 61
LENGTH_PREFIX_SIZE = 12  # base_offset and batch_length, which batch_length does not count
PATCHED_SIZE = 16  # base_offset, batch_length, partition_leader_epoch
MAGIC_POSITION = 16
CRC_START = 21

NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20

HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTHS = struct.Struct(">qi")
_PATCH = struct.Struct(">qii")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP = struct.Struct(">q")


class BatchHeader(NamedTuple):
    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.batch_length + LENGTH_PREFIX_SIZE

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence numbers wrap around to 0 after 2^31 - 1."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_idempotent(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID


class BatchError(Exception):
    """The bytes at a position are not a whole, valid batch."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"at byte {position}: {reason}")
        self.position = position
        self.reason = reason


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`; the buffer must hold at least HEADER_SIZE bytes from there."""
    return BatchHeader._make(HEADER.unpack_from(buffer, position))


def crc_is_valid(batch: memoryview, header: BatchHeader) -> bool:
    return bool(crc32c(batch[CRC_START : header.size]) == header.crc)


def patched_prefix(header: BatchHeader, base_offset: int, leader_epoch: int) -> bytes:
    """The first PATCHED_SIZE bytes with the leader's assignments; what follows stays as it came."""
    return _PATCH.pack(base_offset, header.batch_length, leader_epoch)


def with_log_append_time(batch: Buffer, timestamp_ms: int) -> bytes:
    """A copy of the batch stamped with the broker's time. The stamp lies inside the CRC's range."""
    stamped = bytearray(batch)
    (attributes,) = _ATTRIBUTES.unpack_from(stamped, CRC_START)
    _ATTRIBUTES.pack_into(stamped, CRC_START, attributes | LOG_APPEND_TIME)
    _MAX_TIMESTAMP.pack_into(stamped, 35, timestamp_ms)
    _CRC.pack_into(stamped, 17, crc32c(memoryview(stamped)[CRC_START:]))
    return bytes(stamped)


def iterate_headers(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each whole batch in the buffer; stops quietly at a partial one.

    Raises BatchError where the bytes cannot be a batch at all. CRCs are not checked here.
    """
    end = len(buffer)
    while position + HEADER_SIZE <= end:
        header = read_header(buffer, position)
        if header.magic != 2:
            raise BatchError(position, f"magic {header.magic} instead of 2")
        if header.size < HEADER_SIZE:
            raise BatchError(position, f"batch length {header.batch_length} is too small")
        if position + header.size > end:
            return
        yield position, header
        position += header.size


def check_batch(batch: memoryview, position: int = 0) -> BatchHeader:
    """Validate one stored batch that fills `batch` from its first byte on; BatchError says what is wrong."""
    if len(batch) < HEADER_SIZE:
        raise BatchError(position, f"{len(batch)} bytes left, too few for a batch header")
    header = read_header(batch)
    if header.magic != 2:
        raise BatchError(position, f"magic {header.magic} instead of 2")
    if header.size < HEADER_SIZE:
        raise BatchError(position, f"batch length {header.batch_length} is too small")
    if header.size > len(batch):
        raise BatchError(position, f"batch of {header.size} bytes, of which only {len(batch)} are there")
    if not crc_is_valid(batch, header):
        raise BatchError(position, "CRC mismatch")
    return header


def check_produced(records: memoryview | None) -> BatchHeader:
    """Validate what a producer sent for one partition: exactly one well-formed data batch.

    Raises ApiError with the code that Kafka's own validator would answer.
    """
    if records is not None and len(records) > MAGIC_POSITION and records[MAGIC_POSITION] != 2:
        # The older formats have their magic byte at the same place.
        raise ApiError(
            ErrorCode.unsupported_for_message_format, f"format {records[MAGIC_POSITION]}; only 2 is served"
        )
    if records is None or len(records) < HEADER_SIZE:
        raise ApiError(ErrorCode.corrupt_message, "no complete record batch in the request")
    header = read_header(records)
    if header.size < HEADER_SIZE or header.size > len(records):
        raise ApiError(ErrorCode.corrupt_message, "the batch length does not match the bytes sent")
    if header.size < len(records):
        raise ApiError(ErrorCode.invalid_record, "more than one batch for a partition in one request")
    if not crc_is_valid(records, header):
        raise ApiError(ErrorCode.corrupt_message, "CRC mismatch")
    if header.is_control:
        raise ApiError(ErrorCode.invalid_record, "clients may not write control batches")
    if header.records_count <= 0 or header.records_count != header.last_offset_delta + 1:
        raise ApiError(ErrorCode.invalid_record, "record count and last offset delta disagree")
    if header.codec > 4:
        raise ApiError(ErrorCode.unsupported_compression_type, f"codec {header.codec}")
    if header.is_idempotent and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise ApiError(ErrorCode.invalid_record, "producer id without epoch or sequence")
    if header.is_transactional and not header.is_idempotent:
        raise ApiError(ErrorCode.invalid_record, "transactional batch without producer id")
    return header
