"""A replica's fetch (version 17) and its answer, by hand: both are made for each batch that a follower gets,
and records must not be copied.

Request::

    max_wait_ms(4) min_bytes(4) max_bytes(4) isolation_level(1) session_id(4) session_epoch(4)
    [ topic_id(16) [ partition(4) current_leader_epoch(4) fetch_offset(8) last_fetched_epoch(4)
                     log_start_offset(8) partition_max_bytes(4) ] ]
    forgotten: [ topic_id(16) [ partition(4) ] ]
    rack_id(compact string)
    tagged: 0 cluster_id(compact string), 1 replica_state { replica_id(4) replica_epoch(8) }

Response::

    throttle_time_ms(4) error_code(2) session_id(4)
    [ topic_id(16) [ partition(4) error_code(2) high_watermark(8) last_stable_offset(8) log_start_offset(8)
                     aborted_transactions(null) preferred_read_replica(4) records(compact bytes)
                     tagged: 0 diverging_epoch { epoch(4) end_offset(8) } ] ]

with a tagged section after each struct. What the leader is in is not repeated: whoever asks names its epoch.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from penstock.wire.primitives import array_length, string, unsigned_varint

if TYPE_CHECKING:
    from penstock.wire.batch import Buffer

_REQUEST_HEAD = struct.Struct(">iiibii")
_ASKED = struct.Struct(">iiqiqiB")
_INDEX = struct.Struct(">i")
_REPLICA_STATE = struct.Struct(">BBiqB")
_REPLICA_STATE_SIZE = 13
_HEAD = struct.Struct(">ihi")
_PARTITION = struct.Struct(">ihqqqBi")
_DIVERGING = struct.Struct(">BBBiqB")
_NO_TAGS = b"\x00"
_DIVERGING_SIZE = 13


class AskedPartition(NamedTuple):
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_max_bytes: int


def write_request(
    topics: Mapping[UUID, Sequence[AskedPartition]],
    forgotten: Mapping[UUID, Sequence[int]],
    *,
    session_id: int,
    session_epoch: int,
    max_wait_ms: int,
    max_bytes: int,
    cluster_id: str,
    replica_id: int,
    replica_epoch: int,
) -> bytes:
    out = bytearray(_REQUEST_HEAD.pack(max_wait_ms, 1, max_bytes, 0, session_id, session_epoch))
    out += array_length(len(topics), True)
    for topic_id, partitions in topics.items():
        out += topic_id.bytes
        out += array_length(len(partitions), True)
        for asked in partitions:
            out += _ASKED.pack(*asked, 0)
        out += _NO_TAGS
    out += array_length(len(forgotten), True)
    for topic_id, indexes in forgotten.items():
        out += topic_id.bytes
        out += array_length(len(indexes), True)
        for index in indexes:
            out += _INDEX.pack(index)
        out += _NO_TAGS
    out += string("", True)
    name = string(cluster_id, True)
    out += b"\x02\x00" + unsigned_varint(len(name)) + name
    out += _REPLICA_STATE.pack(1, _REPLICA_STATE_SIZE, replica_id, replica_epoch, 0)
    return bytes(out)


class ReplicaPartition(NamedTuple):
    partition: int
    error_code: int
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging: tuple[int, int] | None = None
    """(epoch, end offset)"""
    records: Buffer = b""


def write_response(
    topics: Sequence[tuple[UUID, Sequence[ReplicaPartition]]], error_code: int = 0, *, session_id: int = 0
) -> list[Buffer]:
    """`topics` need not be all that were asked for, see replication/fetch_session.py."""
    buffers: list[Buffer] = []
    out = bytearray(_HEAD.pack(0, error_code, session_id))
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
