"""BrokerHeartbeat (version 1), by hand: beside Kafka's fields it carries how busy the broker is.

Request::

    broker_id(4) broker_epoch(8) current_metadata_offset(8) want_fence(1) want_shut_down(1)
    tagged: 0 offline_log_dirs [ uuid(16) ], 1000 load

Load, in a form that a node of another version passes over::

    form(1) busy(f4) cpu(f4) queue_ms(f4) disk_free(8) disk_size(8)
    count(4) [ topic_id(16) partition(4) bytes_in(f4) bytes_out(f4) share(f4) ]
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from math import isfinite
from typing import Final, NamedTuple
from uuid import UUID

from penstock.wire.primitives import DecodeError, array_length, read_unsigned_varint, unsigned_varint

OFFLINE_TAG: Final = 0
LOAD_TAG: Final = 1000
FORM: Final = 1
PARTITIONS_MAX: Final = 1_000

_HEAD = struct.Struct(">iqq??")
_LOAD = struct.Struct(">Bfffqqi")
_PARTITION = struct.Struct(">16sifff")


class PartitionLoadData(NamedTuple):
    topic_id: UUID
    partition: int
    bytes_in: float
    bytes_out: float
    share: float


class LoadData(NamedTuple):
    busy: float
    cpu: float
    queue_ms: float
    disk_free: int
    disk_size: int
    partitions: Sequence[PartitionLoadData]


class HeartbeatRequest(NamedTuple):
    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    want_shut_down: bool
    offline: frozenset[UUID] = frozenset()
    load: LoadData | None = None


def write_request(request: HeartbeatRequest) -> bytes:
    head = _HEAD.pack(*request[:3], False, request.want_shut_down)
    tagged = []
    if request.offline:
        tagged.append((OFFLINE_TAG, _ids(request.offline)))
    if request.load is not None:
        tagged.append((LOAD_TAG, _load(request.load)))
    out = bytearray(head + unsigned_varint(len(tagged)))
    for tag, data in tagged:
        out += unsigned_varint(tag) + unsigned_varint(len(data)) + data
    return bytes(out)


def _ids(ids: Collection[UUID]) -> bytes:
    return array_length(len(ids), True) + b"".join(each.bytes for each in sorted(ids))


def _load(load: LoadData) -> bytes:
    partitions = load.partitions[:PARTITIONS_MAX]
    head = _LOAD.pack(
        FORM, load.busy, load.cpu, load.queue_ms, load.disk_free, load.disk_size, len(partitions)
    )
    return head + b"".join(_PARTITION.pack(each[0].bytes, *each[1:]) for each in partitions)


def read_request(frame: bytes | memoryview, position: int, version: int) -> HeartbeatRequest:
    del version  # there is one
    try:
        broker_id, broker_epoch, offset, _, want_shut_down = _HEAD.unpack_from(frame, position)
    except struct.error as error:
        raise DecodeError(f"heartbeat: {error}") from None
    offline: frozenset[UUID] = frozenset()
    load = None
    count, position = read_unsigned_varint(frame, position + _HEAD.size)
    for _ in range(count):
        tag, position = read_unsigned_varint(frame, position)
        size, position = read_unsigned_varint(frame, position)
        data = bytes(frame[position : position + size])
        position += size
        if len(data) < size:
            raise DecodeError("a tagged field is longer than its frame")
        if tag == OFFLINE_TAG:
            offline = _read_ids(data)
        elif tag == LOAD_TAG:
            load = _maybe_load(data)
    return HeartbeatRequest(broker_id, broker_epoch, offset, want_shut_down, offline, load)


def _read_ids(data: bytes) -> frozenset[UUID]:
    count, position = read_unsigned_varint(data, 0)
    if len(data) != position + 16 * (count - 1):
        raise DecodeError("a list of ids with another length than it says")
    return frozenset(UUID(bytes=data[at : at + 16]) for at in range(position, len(data), 16))


def _maybe_load(data: bytes) -> LoadData | None:
    """None: it is in a form that this version does not know."""
    if not data or data[0] != FORM:
        return None
    try:
        _, busy, cpu, queue_ms, disk_free, disk_size, count = _LOAD.unpack_from(data)
        if count > PARTITIONS_MAX or len(data) != _LOAD.size + count * _PARTITION.size:
            raise DecodeError("a load with another length than it says")
        partitions = [
            PartitionLoadData(UUID(bytes=topic_id), *rest)
            for topic_id, *rest in _PARTITION.iter_unpack(data[_LOAD.size :])
        ]
    except struct.error as error:
        raise DecodeError(f"load: {error}") from None
    numbers = [busy, cpu, queue_ms, *(number for each in partitions for number in each[2:])]
    if not all(isfinite(number) and number >= 0 for number in numbers) or disk_free < 0 or disk_size < 0:
        raise DecodeError("a load that is no number")
    return LoadData(busy, cpu, queue_ms, disk_free, disk_size, partitions)
