"""Compaction of batches by key: what stays of each. Pure, and heavy on the processor.

For every key in the dirty part the last offset is noted. A record is superseded if its key has a later offset
there. A tombstone (a null value) also goes once a reader has had `delete_retention_ms` to see it. Records
without a key cannot be compacted and go, as in Kafka; brokers refuse them on such topics. Batches keep
their offset range, epoch, sequence and codec, so that offsets, epochs and producer state read from what is
left are the same; a producer's last batch stays even when it is empty.

What was aborted goes, and supersedes nothing. A marker stays while anything of its transaction does: without
it that would be open. The marker of a commit of which nothing is left goes as a tombstone does. Those of
aborts stay: a reader who was told that a producer's batches are aborted takes the marker for the end of that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

from penstock.wire.control import maybe_marker
from penstock.wire.records import decode_records, encode_batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.storage.transactions import AbortedTransaction
    from penstock.wire.batch import BatchHeader
    from penstock.wire.records import Record

KEYS_MAX = 5_000_000
"""A round that meets more distinct keys stops there; the next one goes on."""
_KEY_BYTES_DIRECT = 16
_CODEC_AND_KIND = 0x7F & ~0x07  # attributes that encode_batch does not derive from the codec


@dataclass(slots=True)
class KeyMap:
    """The last offset of each key in [first, end)."""

    end: int
    last: dict[bytes, int] = field(default_factory=dict)

    def supersedes(self, record: Record) -> bool:
        return record.key is not None and self.last.get(digest(record.key), -1) > record.offset


class AbortedBatches:
    """Which batches belong to aborted transactions."""

    def __init__(self, aborted: Iterable[AbortedTransaction] = ()) -> None:
        self._ranges: dict[int, list[AbortedTransaction]] = {}
        for each in aborted:
            self._ranges.setdefault(each.producer_id, []).append(each)

    def __contains__(self, header: BatchHeader) -> bool:
        return header.is_transactional and any(
            each.first_offset <= header.base_offset < each.last_offset
            for each in self._ranges.get(header.producer_id, ())
        )

    def without(
        self, batches: Iterable[tuple[BatchHeader, memoryview]]
    ) -> Iterable[tuple[BatchHeader, memoryview]]:
        return ((header, batch) for header, batch in batches if header not in self)


def digest(key: bytes) -> bytes:
    """The key itself if it is short; else 20 bytes that stand for it, so that memory is bounded."""
    return key if len(key) <= _KEY_BYTES_DIRECT else blake2b(key, digest_size=20).digest()


def build_key_map(
    batches: Iterable[tuple[BatchHeader, memoryview]], start: int, end: int, keys_max: int = KEYS_MAX
) -> KeyMap:
    keys = KeyMap(end)
    for header, batch in batches:
        if header.last_offset < start or header.is_control:
            continue
        if len(keys.last) + header.records_count > keys_max and keys.last:
            keys.end = header.base_offset
            break
        for record in decode_records(batch, header):
            if record.key is not None and record.offset >= start:
                keys.last[digest(record.key)] = record.offset
    return keys


@dataclass(slots=True)
class Cleaning:
    """One round's rules, and what it counted."""

    keys: KeyMap
    tombstones_before: int
    """Tombstones at lower offsets have been visible for long enough."""
    producers: Mapping[int, int]
    """Per producer the last offset of its last batch."""
    aborted: AbortedBatches = field(default_factory=AbortedBatches)
    records_before: int = 0
    records_after: int = 0
    tombstones_after: int = 0
    _in_transactions: set[int] = field(default_factory=set)
    """Producers of whose transaction, as far as it has been seen, something is left."""

    def clean(self, header: BatchHeader, batch: memoryview) -> bytes | memoryview | None:
        """The batch as it is to be kept; None if nothing of it is. To be called in the order of the log."""
        if header.is_control:
            return batch if self._marker_stays(header, batch) else None
        cleaned = batch if header.base_offset >= self.keys.end else self._clean_records(header, batch)
        if cleaned is not None and header.is_transactional:
            self._in_transactions.add(header.producer_id)
        return cleaned

    def _marker_stays(self, header: BatchHeader, batch: memoryview) -> bool:
        marker = maybe_marker(batch, header)
        if marker is None:
            return True
        has_batches = header.producer_id in self._in_transactions
        self._in_transactions.discard(header.producer_id)
        is_young = header.base_offset >= min(self.tombstones_before, self.keys.end)
        return has_batches or is_young or not marker.is_commit

    def _clean_records(self, header: BatchHeader, batch: memoryview) -> bytes | memoryview | None:
        self.records_before += header.records_count
        records = list(decode_records(batch, header))
        kept = [] if header in self.aborted else [record for record in records if self._stays(record)]
        self.records_after += len(kept)
        self.tombstones_after += sum(record.value is None for record in kept)
        if len(kept) == len(records) and records:
            return batch
        if not kept and self.producers.get(header.producer_id) != header.last_offset:
            return None
        stamp = header.max_timestamp if not kept or header.is_log_append_time else None
        return encode_batch(
            kept,
            codec=header.codec if kept else 0,
            attributes=header.attributes & _CODEC_AND_KIND,
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            leader_epoch=header.partition_leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            max_timestamp=stamp,
        )

    def _stays(self, record: Record) -> bool:
        if record.key is None:
            return False
        if record.value is None and record.offset < self.tombstones_before:
            return False
        return not self.keys.supersedes(record)
