"""Messages of a transaction as a record batch (format 2)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from crc32c import crc32c

from penstock.client.kafka.raw.fields import int32, varint

if TYPE_CHECKING:
    from penstock.client.pubsub.messages import Outgoing

MAGIC: Final = 2
TRANSACTIONAL: Final = 0x10
NO_LEADER_EPOCH: Final = -1
SEQUENCES: Final = 2**31
"""Sequence numbers begin again after so many."""


class Owner(NamedTuple):
    """Who writes: the producer id, and which of those that had it."""

    producer_id: int
    epoch: int


def encode_batch(messages: Sequence[Outgoing], owner: Owner, sequence: int, now_ms: int) -> bytes:
    records = b"".join(_record(place, message) for place, message in enumerate(messages))
    covered = struct.pack(
        ">hiqqqhii",
        TRANSACTIONAL,
        len(messages) - 1,
        now_ms,
        now_ms,
        owner.producer_id,
        owner.epoch,
        sequence,
        len(messages),
    )
    covered += records
    tail = struct.pack(">ibI", NO_LEADER_EPOCH, MAGIC, crc32c(covered)) + covered
    return struct.pack(">q", 0) + int32(len(tail)) + tail


def _record(place: int, message: Outgoing) -> bytes:
    body = b"\0" + varint(0) + varint(place) + _bytes(message.key) + _bytes(message.value)
    body += varint(len(message.headers))
    for name, value in message.headers:
        body += _bytes(name.encode()) + _bytes(value)
    return varint(len(body)) + body


def _bytes(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data
