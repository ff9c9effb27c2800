"""Markers: the control batches that end a transaction in a partition.

A control batch holds one record, uncompressed, whose key says what it is and whose value who says so::

    key    version(2) = 0  type(2): 0 abort, 1 commit
    value  version(2) = 0  coordinator_epoch(4)

Other types are for other things than transactions; of versions, later ones only add fields.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.wire.batch import CONTROL, TRANSACTIONAL, BatchHeader
from penstock.wire.records import Record, RecordsError, decode_records, encode_batch

if TYPE_CHECKING:
    from penstock.wire.batch import Buffer

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
ABORT: Final = 0
COMMIT: Final = 1


class Marker(NamedTuple):
    is_commit: bool
    coordinator_epoch: int


def encode_marker(marker: Marker, producer_id: int, producer_epoch: int, now_ms: int) -> bytes:
    key = _KEY.pack(0, COMMIT if marker.is_commit else ABORT)
    value = _VALUE.pack(0, marker.coordinator_epoch)
    return encode_batch(
        [Record(0, now_ms, key, value)],
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def maybe_marker(batch: Buffer, header: BatchHeader) -> Marker | None:
    """None for a control batch of another kind. Raises RecordsError if it cannot be one at all."""
    record = next(decode_records(memoryview(batch), header), None)
    if record is None or record.key is None or len(record.key) < _KEY.size:
        raise RecordsError("a control batch without a key")
    _, kind = _KEY.unpack_from(record.key)
    if kind not in (ABORT, COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise RecordsError("a transaction's marker without its value")
    _, coordinator_epoch = _VALUE.unpack_from(record.value)
    return Marker(kind == COMMIT, coordinator_epoch)
