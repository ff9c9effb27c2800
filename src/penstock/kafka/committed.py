"""The records of a fetch that readers may see: checksums checked, transactions respected.

A broker sends whole batches, beginning with the one that holds the offset asked for; the last may be cut
off. It sends no batch of a transaction that is still open, but those of aborted ones, with a list: producer
and first offset of each aborted transaction that touches what was sent. A transaction ends at its marker, a
control batch of the same producer. So while the batches are gone through in order, a producer is "aborting"
from the first offset on the list to the next marker, and what it wrote meanwhile is passed over.

A batch with a wrong checksum was damaged on its way, and is asked for again. One with the right checksum and
records that are none was sent like that: it stays as it is, so it is passed over, or it would block all
readers for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from penstock.kafka.decoding import records_from
from penstock.kafka.records import Fetched, ReadRecord, Undecodable
from penstock.wire.batch import BatchError, BatchHeader, crc_is_valid, iterate_headers
from penstock.wire.compression import CompressionError
from penstock.wire.records import RecordsError


class DamagedError(Exception):
    """What came is not what was written."""


class Aborted(NamedTuple):
    first_offset: int
    producer_id: int


class AbortedTransactions:
    """Which batches belong to aborted transactions; to be asked in the order of offsets."""

    def __init__(self, aborted: Iterable[Aborted]) -> None:
        self._ahead = sorted(aborted, reverse=True)
        self._aborting: set[int] = set()

    def hides(self, header: BatchHeader) -> bool:
        while self._ahead and self._ahead[-1].first_offset <= header.last_offset:
            self._aborting.add(self._ahead.pop().producer_id)
        if header.is_control:
            # Commit or abort, the transaction ends here. The next one of that producer has its own entry.
            self._aborting.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._aborting


def open_fetched(
    partition: int,
    offset: int,
    data: bytes | memoryview,
    aborted: Sequence[Aborted],
    *,
    end: int,
    log_start: int,
) -> Fetched:
    """What a fetch at `offset` brought. Raises DamagedError."""
    records: list[ReadRecord] = []
    undecodable: list[Undecodable] = []
    next_offset = offset
    transactions = AbortedTransactions(aborted)
    for batch, header in _batches(memoryview(data)):
        if header.next_offset <= offset:
            continue  # the index of the log is coarse
        if not transactions.hides(header):
            try:
                records += records_from(offset, partition, batch, header)
            except (RecordsError, CompressionError) as error:
                undecodable.append(Undecodable(header.base_offset, error))
        next_offset = header.next_offset
    if len(data) and next_offset == offset:
        raise DamagedError(f"no whole batch at offset {offset} in {len(data)} bytes")
    return Fetched(records, next_offset, end, log_start, undecodable)


def _batches(data: memoryview) -> Iterator[tuple[memoryview, BatchHeader]]:
    try:
        for position, header in iterate_headers(data):
            batch = data[position : position + header.size]
            if not crc_is_valid(batch, header):
                raise DamagedError(f"the batch at offset {header.base_offset} has a wrong checksum")
            yield batch, header
    except BatchError as error:
        raise DamagedError(str(error)) from error
