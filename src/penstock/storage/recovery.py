"""What is done with a segment that nobody vouches for: scan it, index it, decide about bad bytes.

A segment's index file says how many of its bytes were described and synced when it was written (at the
roll, at a checkpoint now and then, at a clean close, by compaction): it vouches for them. Recovery trusts
that much and scans the rest, checking header, CRC and order of offsets of every batch. A segment begins at
the offset where the one before it ended, and keeps both when compaction removes batches from it. So a closed
segment that is vouched for up to where its successor begins is whole and is not looked at, and one that ends
earlier has lost its end: an older index may vouch for what is left of it. Only where the index itself is gone
and the log has been compacted up to there, the scan cannot tell, and takes it for whole.
Where a scan meets bytes that are no valid batch, or an end that comes too early, there are these cases:

* The segment is not the last one and `flush=commit`. It was synced in whole before its successor was begun,
  so no crash of ours explains the damage. It is reported, nothing is cut, reads that reach it raise
  StorageError, and whatever follows stays readable.
* It is not the last one and `flush=os`. Its sync and its index were left to the background when it was
  closed, and a loss of power came first. So it may be torn like the last one, or, with its successor on disk
  already, just end too early; nothing from there on was promised to be on disk. As Kafka does, the log is cut
  at the first bad byte or at the early end, and the segments behind go, so that no offset is missing within.
* It is the last one and no valid batch follows: a torn tail. A write was under way when the process or the
  machine stopped. Nothing of it was acknowledged, because acknowledgements wait for the whole write (and,
  under `flush=commit`, for the sync). It is cut off.
* It is the last one and valid batches follow. Under `flush=os` nothing after the checkpoint was promised to
  be on disk and the system may have written pages in any order, so the log is cut at the first bad byte, as
  Kafka does. Under `flush=commit` two things can explain it: the machine lost power during one sync and kept
  later pages but not an earlier one (then nothing behind the bad byte was acknowledged), or the disk damaged
  bytes long after they were synced (then everything behind was). The bytes cannot tell which. Cutting could
  lose acknowledged data, so the log refuses to open, names the place and leaves the files as they are;
  cutting the file there by hand is then somebody's decision. A replica that others count on no longer is cut
  (`cuts_damaged_end`): it gets the rest from them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.storage.config import INDEX_INTERVAL_BYTES, Flush
from penstock.storage.errors import DamagedEndError
from penstock.storage.index import Extent, Mark, SparseIndex
from penstock.storage.rot import UNKNOWN_OFFSET, Damage
from penstock.storage.scan import find_valid_batch, scan_batches
from penstock.wire.batch import BatchError

if TYPE_CHECKING:
    from penstock.storage.config import LogConfig
    from penstock.storage.index import StoredIndex
    from penstock.storage.scan import Read
    from penstock.wire.batch import BatchHeader


@dataclass(slots=True)
class Recovered:
    stored: StoredIndex
    """What the segment holds; `covered` is where it must be cut if the file is longer."""
    damage: list[Damage] = field(default_factory=list)
    scanned_from: int = 0
    """All from there on has been checked."""
    report: list[str] = field(default_factory=list)
    ends_log: bool = False
    """The segments behind this one have to go."""


class IndexBuilder(Extent):
    """An index that grows with the batches it is shown."""

    def __init__(self, base_offset: int, interval: int, known: StoredIndex | None = None) -> None:
        super().__init__(base_offset, known)
        self.interval = interval
        self.index = known.index.copy() if known else SparseIndex()
        self._marked = self.index.positions[-1] if len(self.index) else 0

    def add(self, position: int, header: BatchHeader, *, mark: bool = False) -> None:
        if mark or position - self._marked >= self.interval:
            self.index.add(Mark(header.base_offset, position, self.max_timestamp))
            self._marked = position
        self.grow(position + header.size, header.next_offset, header.max_timestamp, header.max_timestamp)

    def stored(self) -> StoredIndex:
        return self.stored_index(self.index)


def recover(
    read: Read,
    path: str,
    base_offset: int,
    size: int,
    checkpoint: StoredIndex | None,
    config: LogConfig,
    successor: int | None,
    cleaned_to: int,
) -> Recovered:
    """A segment that is not vouched for in whole; `successor` is the base offset of the one behind it."""
    if successor is None:
        return recover_last(read, path, base_offset, size, checkpoint, config)
    if config.flush is Flush.COMMIT:
        recovered = recover_closed(read, path, base_offset, size, config.index_interval_bytes)
    else:
        recovered = recover_last(read, path, base_offset, size, checkpoint, config)
        if recovered.stored.covered < size:
            recovered.ends_log = True
            return recovered
        recovered.report.append(f"{path}: index rebuilt from {size} bytes")
    _look_for_a_gap(recovered, path, successor, cleaned_to, config.flush)
    return recovered


def _look_for_a_gap(recovered: Recovered, path: str, successor: int, cleaned_to: int, flush: Flush) -> None:
    end_offset = recovered.stored.end_offset
    if end_offset >= successor:
        return
    if successor > cleaned_to:
        what = f"{path}: ends at offset {end_offset} and not at {successor}, where the next segment begins"
        if flush is Flush.OS:
            recovered.ends_log = True
            recovered.report.append(f"{what}; the log ends there")
            return
        recovered.report.append(f"{what}; the offsets between are missing, nothing was changed")
    recovered.stored = replace(recovered.stored, end_offset=successor)


def rebuild_index(read: Read, base_offset: int, size: int, interval: int = INDEX_INTERVAL_BYTES) -> Recovered:
    """Index a whole segment; damaged stretches are noted and passed over, so that what follows is found."""
    builder = IndexBuilder(base_offset, interval)
    damage: list[Damage] = []
    position = 0
    after_damage = False
    while position < size:
        try:
            for at, header in scan_batches(read, position, size, builder.end_offset):
                builder.add(at, header, mark=after_damage)
                after_damage = False
            break
        except BatchError as error:
            found = find_valid_batch(read, error.position + 1, size, builder.end_offset)
            position, offset = (found[0], found[1].base_offset) if found else (size, UNKNOWN_OFFSET)
            damage.append(Damage(error.position, position, builder.end_offset, offset, error.reason))
            after_damage = True
    builder.size = size  # damage at the end is a part of it
    return Recovered(builder.stored(), damage)


def recover_closed(read: Read, path: str, base_offset: int, size: int, interval: int) -> Recovered:
    """A segment that is not the last one and whose index is missing, damaged or short."""
    recovered = rebuild_index(read, base_offset, size, interval)
    recovered.report.append(f"{path}: index rebuilt from {size} bytes")
    recovered.report.extend(
        f"{path}: {each.end - each.start} bytes at {each.start} are damaged; reading them will fail, "
        "nothing was changed"
        for each in recovered.damage
    )
    return recovered


def recover_last(
    read: Read, path: str, base_offset: int, size: int, checkpoint: StoredIndex | None, config: LogConfig
) -> Recovered:
    """The segment that was being written. DamagedEndError where cutting could lose acknowledged data."""
    report: list[str] = []
    if checkpoint is not None and checkpoint.covered > size:
        report.append(
            f"{path}: {checkpoint.covered - size} bytes that were on disk are missing from its end; "
            f"{size} bytes are left"
        )
        checkpoint = None
    builder = IndexBuilder(base_offset, config.index_interval_bytes, checkpoint)
    scanned_from = builder.size
    try:
        for at, header in scan_batches(read, scanned_from, size, builder.end_offset):
            builder.add(at, header)
    except BatchError as error:
        found = find_valid_batch(read, error.position + 1, size, builder.end_offset)
        if found is not None and config.flush is Flush.COMMIT and not config.cuts_damaged_end:
            raise DamagedEndError(
                f"{path} is damaged at byte {error.position} ({error.reason}) and valid batches follow from "
                f"byte {found[0]} (offset {found[1].base_offset}) on: cutting could lose acknowledged data. "
                f"To give it up, truncate the file to {error.position} bytes"
            ) from error
        follows = ", valid batches that were not synced follow it" if found else ""
        report.append(
            f"{path}: cut {size - error.position} bytes at {error.position} ({error.reason}{follows}); "
            f"the log ends at offset {builder.end_offset}"
        )
    return Recovered(builder.stored(), [], scanned_from, report)
