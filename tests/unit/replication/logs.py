"""A log that knows how far it reaches, and nothing of what is in it."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.storage.epochs import LeaderEpochs


class Log:
    def __init__(
        self, epochs: Iterable[tuple[int, int]] = (), end_offset: int = 0, *, log_start_offset: int = 0
    ) -> None:
        self.epochs = LeaderEpochs(epochs)
        self.log_start_offset = log_start_offset
        self.log_end_offset = self.flushed_end_offset = end_offset

    def append(self, count: int) -> None:
        self.log_end_offset += count
        self.flushed_end_offset = self.log_end_offset

    def truncate(self, offset: int) -> None:
        self.log_end_offset = self.flushed_end_offset = offset
        self.epochs.truncate_end(offset)

    def restart_at(self, offset: int) -> None:
        self.log_start_offset = self.log_end_offset = self.flushed_end_offset = offset
        self.epochs = LeaderEpochs()
