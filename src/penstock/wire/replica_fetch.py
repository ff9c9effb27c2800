"""The answer to a replica's fetch (version 17), by hand: its records must not be copied.

::

    throttle_time_ms(4) error_code(2) session_id(4)
    [ topic_id(16) [ partition(4) error_code(2) high_watermark(8) last_stable_offset(8) log_start_offset(8)
                     aborted_transactions(null) preferred_read_replica(4) records(compact bytes)
                     tagged: 0 diverging_epoch { epoch(4) end_offset(8) } ] ]

with a tagged section after each struct. What the leader is in is not repeated: whoever asks names its epoch.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from penstock.wire.primitives import array_length, unsigned_varint

if TYPE_CHECKING:
    from penstock.wire.batch import Buffer

_HEAD = struct.Struct(">ihi")
_PARTITION = struct.Struct(">ihqqqBi")
_DIVERGING = struct.Struct(">BBBiqB")
_NO_TAGS = b"\x00"
_DIVERGING_SIZE = 13


class ReplicaPartition(NamedTuple):
    partition: int
    error_code: int
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging: tuple[int, int] | None = None
    """(epoch, end offset)"""
    records: Buffer = b""


def write_response(
    topics: Sequence[tuple[UUID, Sequence[ReplicaPartition]]], error_code: int = 0
) -> list[Buffer]:
    buffers: list[Buffer] = []
    out = bytearray(_HEAD.pack(0, error_code, 0))
    out += array_length(len(topics), True)
    for topic_id, partitions in topics:
        out += topic_id.bytes
        out += array_length(len(partitions), True)
        for answer in partitions:
            out += _PARTITION.pack(
                answer.partition, answer.error_code, answer.high_watermark, answer.high_watermark,
                answer.log_start_offset, 0, -1,
            )  # fmt: skip
            out += unsigned_varint(len(answer.records) + 1)
            if len(answer.records):
                buffers += (bytes(out), answer.records)
                out = bytearray()
            if answer.diverging is None:
                out += _NO_TAGS
            else:
                out += _DIVERGING.pack(1, 0, _DIVERGING_SIZE, *answer.diverging, 0)
        out += _NO_TAGS
    out += _NO_TAGS
    buffers.append(bytes(out))
    return buffers
