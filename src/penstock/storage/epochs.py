"""Which leader epoch began at which offset: what followers truncate by (KIP-101, KIP-279). Pure."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    epoch: int
    end_offset: int


class LeaderEpochs:
    """Entries ascend strictly in both epoch and start offset."""

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._entries: list[EpochEntry] = []
        self.latest = UNDEFINED_EPOCH
        self.version = 0
        """Grows with every change, so that the owner knows when to write them down."""
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)

    @property
    def entries(self) -> list[EpochEntry]:
        return list(self._entries)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Record that `epoch` begins at `start_offset`; nothing happens for the epoch that is current.

        Epochs that began at or after that offset never wrote anything that survived, so they go.
        """
        if epoch <= self.latest:
            if epoch == self.latest or epoch < 0:
                return
            raise ValueError(f"leader epoch {epoch} after {self.latest}")
        while self._entries and self._entries[-1].start_offset >= start_offset:
            self._entries.pop()
        self._entries.append(EpochEntry(epoch, start_offset))
        self._changed()

    def epoch_at(self, offset: int) -> int:
        """The epoch in which the record at `offset` was written."""
        at = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[at - 1].epoch if at else UNDEFINED_EPOCH

    def end_offset(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The largest epoch ≤ `epoch` and where it ends; (-1, -1) when nothing can be said."""
        if epoch < 0 or epoch > self.latest:
            return EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        if epoch == self.latest:
            return EpochEnd(epoch, log_end_offset)
        after = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        floor = self._entries[after - 1].epoch if after else epoch
        return EpochEnd(floor, self._entries[after].start_offset)

    def truncate_end(self, offset: int) -> None:
        """The log now ends at `offset`: epochs that began there or later are forgotten."""
        before = len(self._entries)
        while self._entries and self._entries[-1].start_offset >= offset:
            self._entries.pop()
        if len(self._entries) != before:
            self._changed()

    def truncate_start(self, offset: int) -> None:
        """The log now starts at `offset`: the epoch in force there is kept, earlier ones go."""
        at = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        if at == 0 or (at == 1 and self._entries[0].start_offset == offset):
            return
        self._entries[:at] = [EpochEntry(self._entries[at - 1].epoch, offset)]
        self._changed()

    def _changed(self) -> None:
        self.latest = self._entries[-1].epoch if self._entries else UNDEFINED_EPOCH
        self.version += 1
