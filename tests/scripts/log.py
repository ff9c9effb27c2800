"""A log whose records are words, with the leader epochs of the real one."""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

from penstock.storage.epochs import LeaderEpochs


class Entry(NamedTuple):
    epoch: int
    value: object


class ScriptLog:
    """What is appended is lost in a crash until `flush`. Epochs are treated as PartitionLog does."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.epochs = LeaderEpochs()
        self.log_start_offset = 0
        self.flushed_end_offset = 0
        self._stored_epochs = self.epochs.entries

    @property
    def log_end_offset(self) -> int:
        return self.log_start_offset + len(self.entries)

    def append(self, entry: Entry) -> int:
        offset = self.log_end_offset
        self.epochs.assign(entry.epoch, offset)
        self.entries.append(entry)
        return offset

    def begin_epoch(self, epoch: int) -> None:
        self.epochs.assign(epoch, self.log_end_offset)

    def flush(self) -> None:
        self.flushed_end_offset = self.log_end_offset
        self._stored_epochs = self.epochs.entries

    def truncate(self, offset: int) -> None:
        del self.entries[offset - self.log_start_offset :]
        self.epochs.truncate_end(offset)
        self.flush()

    def restart_at(self, offset: int) -> None:
        self.entries = []
        self.epochs.truncate_end(0)
        self.log_start_offset = offset
        self.flush()

    def delete_before(self, offset: int) -> None:
        if offset > self.log_start_offset:
            del self.entries[: offset - self.log_start_offset]
            self.log_start_offset = offset
            self.epochs.truncate_start(offset)
            self._stored_epochs = self.epochs.entries

    def crash(self) -> None:
        del self.entries[self.flushed_end_offset - self.log_start_offset :]
        self.epochs = LeaderEpochs(self._stored_epochs)

    def read(self, offset: int, end_offset: int) -> list[Entry]:
        start = self.log_start_offset
        return self.entries[max(0, offset - start) : max(0, end_offset - start)]

    def __str__(self) -> str:
        words = [f"({self.log_start_offset})"] if self.log_start_offset else []
        unflushed = self.log_end_offset - self.flushed_end_offset
        flushed, queued = self.entries[: len(self.entries) - unflushed], self.entries[-unflushed:]
        words.append(show_entries(flushed))
        if unflushed:
            words.append("unflushed " + show_entries(queued))
        return " ".join(words)


def show_entries(entries: list[Entry]) -> str:
    """By epoch: `1[a b] 2[c]`."""
    runs = groupby(entries, key=lambda entry: entry.epoch)
    return " ".join(f"{epoch}[{' '.join(str(one.value) for one in run)}]" for epoch, run in runs) or "empty"
