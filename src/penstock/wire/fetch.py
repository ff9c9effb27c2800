"""The Fetch response by hand: records go out as the buffers they were read into.

Body, versions 4–11 (version 12 has compact lengths, with tagged fields after each struct)::

    throttle_time_ms(4) error_code(2, from 7) session_id(4, from 7)
    [ topic [ index(4) error_code(2) high_watermark(8) last_stable_offset(8) log_start_offset(8, from 5)
              [ producer_id(8) first_offset(8) ] (aborted transactions, nullable)
              preferred_read_replica(4, from 11) records(bytes) ] ]
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from penstock.wire.primitives import array_length, string, unsigned_varint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.wire.batch import Buffer

_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_THROTTLE_ERROR_SESSION = struct.Struct(">ihi")
_PARTITION = struct.Struct(">ihqq")
_ABORTED = struct.Struct(">qq")

FLEXIBLE_FROM = 12


class PartitionAnswer(NamedTuple):
    partition: int
    error_code: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    preferred_read_replica: int = -1
    records: Buffer = b""
    aborted: Sequence[tuple[int, int]] | None = None
    """(producer id, first offset) of aborted transactions; None for a reader that does not ask for them."""


def write_response(
    topics: Sequence[tuple[str, Sequence[PartitionAnswer]]], version: int, error_code: int = 0
) -> list[Buffer]:
    """The buffers of the body. Sessions are declined: the session id is always 0."""
    compact = version >= FLEXIBLE_FROM
    tags = b"\x00" if compact else b""
    buffers: list[Buffer] = []
    out = bytearray(_THROTTLE_ERROR_SESSION.pack(0, error_code, 0) if version >= 7 else _I32.pack(0))
    out += array_length(len(topics), compact)
    for name, answers in topics:
        out += string(name, compact)
        out += array_length(len(answers), compact)
        for answer in answers:
            _write_partition(out, answer, version)
            if len(answer.records):
                buffers += (bytes(out), answer.records)
                out = bytearray()
            out += tags
        out += tags
    out += tags
    buffers.append(bytes(out))
    return buffers


def _write_partition(out: bytearray, answer: PartitionAnswer, version: int) -> None:
    compact = version >= FLEXIBLE_FROM
    out += _PARTITION.pack(
        answer.partition, answer.error_code, answer.high_watermark, answer.last_stable_offset
    )
    if version >= 5:
        out += _I64.pack(answer.log_start_offset)
    if answer.aborted is None:
        out += b"\x00" if compact else b"\xff\xff\xff\xff"
    else:
        out += array_length(len(answer.aborted), compact)
        for producer_id, first_offset in answer.aborted:
            out += _ABORTED.pack(producer_id, first_offset)
            out += b"\x00" if compact else b""
    if version >= 11:
        out += _I32.pack(answer.preferred_read_replica)
    size = len(answer.records)
    out += unsigned_varint(size + 1) if compact else _I32.pack(size)
