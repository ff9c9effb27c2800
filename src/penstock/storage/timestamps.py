"""Finding records by time: the index leads near the place, batches are opened only where they may hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.storage.errors import StorageError
from penstock.wire.compression import CompressionError
from penstock.wire.records import RecordsError, decode_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.storage.interface import LogBackend
    from penstock.storage.log import PartitionLog
    from penstock.wire.batch import BatchHeader
    from penstock.wire.records import Record


class TimestampedOffset(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


def find_by_time(
    log: PartitionLog, backend: LogBackend, timestamp: int, end_offset: int
) -> TimestampedOffset | None:
    return _first_at(log, max(backend.seek_time(timestamp), log.log_start_offset), timestamp, end_offset)


def _first_at(log: PartitionLog, start: int, timestamp: int, end_offset: int) -> TimestampedOffset | None:
    for header, batch in log.batches(start, end_offset):
        if header.max_timestamp < timestamp:
            continue
        for record in _visible_records(log, header, batch, end_offset):
            if record.timestamp >= timestamp:
                return TimestampedOffset(record.offset, record.timestamp, header.partition_leader_epoch)
    return None


def find_max(log: PartitionLog, backend: LogBackend, end_offset: int) -> TimestampedOffset | None:
    """The index knows the largest timestamp up to a place near the end, a short walk the rest.

    Records that are not visible, before the log start or in a batch that reaches over the end, may own the
    timestamp that the headers give; then the log is walked.
    """
    end_offset = min(end_offset, log.flushed_end_offset)
    largest, offset = backend.max_timestamp_before(end_offset)
    for header, _ in log.batches(offset, end_offset):
        largest = max(largest, header.max_timestamp)
    found = find_by_time(log, backend, largest, end_offset)
    if found is not None or largest < 0:
        return found
    for header, batch in log.batches(log.log_start_offset, end_offset):
        if found is None or header.max_timestamp > found.timestamp:
            for record in _visible_records(log, header, batch, end_offset):
                if found is None or record.timestamp > found.timestamp:
                    found = TimestampedOffset(record.offset, record.timestamp, header.partition_leader_epoch)
    return found


def _visible_records(
    log: PartitionLog, header: BatchHeader, batch: memoryview, end_offset: int
) -> Iterator[Record]:
    try:
        for record in decode_records(batch, header):
            if log.log_start_offset <= record.offset < end_offset:
                yield record
    except (RecordsError, CompressionError) as error:
        raise StorageError(
            f"{log.name}: the batch at offset {header.base_offset} is damaged: {error}"
        ) from error
