"""What must hold in every script, whatever it prints: what is committed stays, on every in-sync replica."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.scripts.log import show_entries

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.scripts.log import Entry, ScriptLog


class Truth:
    def __init__(self) -> None:
        self.violations: list[str] = []
        self._committed: list[Entry] = []
        self._leaders: dict[int, int] = {}

    def leads(self, broker_id: int, epoch: int, log: ScriptLog) -> None:
        if self._leaders.setdefault(epoch, broker_id) != broker_id:
            self._violated(f"epoch {epoch} has two leaders, {self._leaders[epoch]} and {broker_id}")
        self.holds(f"the leader {broker_id}", log)

    def commits(self, broker_id: int, before: int, high_watermark: int, log: ScriptLog) -> None:
        if high_watermark < before:
            self._violated(f"the high watermark of {broker_id} goes back from {before} to {high_watermark}")
        if high_watermark > log.flushed_end_offset:
            self._violated(f"{broker_id} commits {high_watermark}, and has flushed {log.flushed_end_offset}")
        known = len(self._committed)
        if log.log_start_offset <= known:
            self._committed += log.read(known, high_watermark)
        self.holds(f"{broker_id}", log, high_watermark)

    def holds(self, who: str, log: ScriptLog, end_offset: int | None = None) -> None:
        """All that is committed, as far as it was not deleted."""
        end_offset = len(self._committed) if end_offset is None else end_offset
        start = log.log_start_offset
        flushed = log.read(start, min(end_offset, log.flushed_end_offset))
        if flushed != self._committed[start:end_offset]:
            self._violated(f"{who} has {log}, and {end_offset} is committed")

    def in_sync(self, logs: Iterable[tuple[int, ScriptLog]]) -> None:
        for broker_id, log in logs:
            self.holds(f"{broker_id} is in sync,", log)

    def lost(self, log: ScriptLog, others: Iterable[ScriptLog]) -> list[Entry]:
        """After an election that was not clean: what is gone for good, and must be gone from all who live."""
        kept = 0
        for offset, entry in enumerate(self._committed):
            if log.log_start_offset <= offset and log.read(offset, offset + 1) != [entry]:
                break
            kept = offset + 1
        gone, self._committed = self._committed[kept:], self._committed[:kept]
        for other in others:
            if gone and other.read(kept, kept + 1) == gone[:1]:
                self._violated(f"{show_entries(gone)} is lost, and a live replica has {other}")
        return gone

    def _violated(self, line: str) -> None:
        if line not in self.violations:
            self.violations.append(line)
