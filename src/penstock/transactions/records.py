"""The records of `__transaction_state`, byte for byte as Kafka writes them.

The fields are those of penstock.wire.fields::

    key   version(2) = 0  transactional_id(string)
    value version(2) = 0  producer_id(8) producer_epoch(2) timeout_ms(4) status(1)
          topics_count(4) * { topic(string) partitions_count(4) * partition(4) }     -1 for none
          last_update_ms(8) start_ms(8)

A key with a null value is a tombstone: the id is forgotten.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from penstock.transactions.states import STATUS_BYTES, TransactionState
from penstock.types import TopicPartition
from penstock.wire.fields import FieldReader, RecordError, int16, string

VERSION: Final = 0
NO_TIMESTAMP: Final = -1
_STATES: Final = {number: state for state, number in STATUS_BYTES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionValue:
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition] = frozenset()
    last_update_ms: int
    start_ms: int = NO_TIMESTAMP


def encode_key(transactional_id: str) -> bytes:
    return int16(VERSION) + string(transactional_id)


CONFIRMATION: Final = (encode_key(""), None)
"""See `CoordinatorShard.confirm`."""


def decode_key(data: bytes) -> str:
    reader = FieldReader(data)
    _check_version(reader.int16(), "key")
    transactional_id = reader.string()
    reader.end()
    return transactional_id


def encode_value(value: TransactionValue) -> bytes:
    head = struct.pack(
        ">hqhib",
        VERSION,
        value.producer_id,
        value.producer_epoch,
        value.timeout_ms,
        STATUS_BYTES[value.state],
    )
    return head + _encode_partitions(value) + struct.pack(">qq", value.last_update_ms, value.start_ms)


def _encode_partitions(value: TransactionValue) -> bytes:
    if value.state is TransactionState.EMPTY:
        return struct.pack(">i", -1)
    topics = [
        (topic, [one.partition for one in found])
        for topic, found in groupby(sorted(value.partitions), key=lambda one: one.topic)
    ]
    out = [struct.pack(">i", len(topics))]
    for topic, partitions in topics:
        out += [string(topic), struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)]
    return b"".join(out)


def decode_value(data: bytes) -> TransactionValue:
    reader = FieldReader(data)
    _check_version(reader.int16(), "value")
    producer_id, producer_epoch, timeout_ms = reader.int64(), reader.int16(), reader.int32()
    state = _STATES.get(status := reader.int8())
    if state is None:
        raise RecordError(f"unknown status {status} of a transaction")
    partitions = frozenset(
        TopicPartition(topic, reader.int32())
        for _ in range(reader.int32())
        for topic, count in ((reader.string(), reader.int32()),)
        for _ in range(count)
    )
    value = TransactionValue(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timeout_ms=timeout_ms,
        state=state,
        partitions=partitions,
        last_update_ms=reader.int64(),
        start_ms=reader.int64(),
    )
    reader.end()
    return value


def _check_version(version: int, what: str) -> None:
    if version != VERSION:
        raise RecordError(f"unknown {what} version {version}")
