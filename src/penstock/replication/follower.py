"""A follower of a partition, in one leader epoch: what it asks for, and what it makes of the answers.

It fetches from the end of what it has flushed, one fetch at a time: append, flush, fetch again, so that the
fetch acknowledges. Where its log and the leader's part, it truncates by epochs (see divergence.py), perhaps
in several steps. It never truncates by its high watermark, which only says what readers may see: it follows
the leader's, as far as its own flushed log reaches.

The driver carries out the effect of an answer, waits until that is on disk, calls `flushed`, and asks for the
next fetch. Another leader epoch ends this object; an answer to a fetch of an earlier one is not told to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.replication.divergence import truncation_offset
from penstock.replication.replica_fetch import ReplicaAnswer, ReplicaFetch
from penstock.types import ErrorCode

if TYPE_CHECKING:
    from penstock.replication.divergence import LogView
    from penstock.replication.leader import PartitionState


@dataclass(frozen=True, slots=True)
class AppendRecords:
    """Append what came with the answer and flush it."""


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """Forget all from `offset` on, with every epoch that began there or later, even if the log ends there: a
    leader that wrote nothing left such an epoch, and records of an earlier one may have to follow."""

    offset: int


@dataclass(frozen=True, slots=True)
class StartAt:
    """Nothing of the log is in the leader's: begin anew with an empty one at `offset`."""

    offset: int


@dataclass(frozen=True, slots=True)
class FetchAgain:
    """There is nothing new."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Fetch again after a pause: the leader is not ready to lead, or not for us."""

    error: ErrorCode


@dataclass(frozen=True, slots=True)
class Stop:
    """The leader is in a later epoch, of which the metadata will tell."""


Effect = AppendRecords | TruncateTo | StartAt | FetchAgain | Retry | Stop


class PartitionFollower:
    def __init__(self, me: int, state: PartitionState, log: LogView, high_watermark: int) -> None:
        assert state.leader != me
        self.state = state
        self.high_watermark = high_watermark
        self._log = log
        self._leader_high_watermark = 0
        self._leader_log_start_offset = 0
        self.flushed()

    def next_fetch(self) -> ReplicaFetch:
        log = self._log
        assert log.flushed_end_offset == log.log_end_offset, "a follower flushes before it fetches"
        return ReplicaFetch(
            self.state.leader_epoch, log.flushed_end_offset, log.epochs.latest, log.log_start_offset
        )

    def answered(self, answer: ReplicaAnswer) -> Effect:
        if answer.error is ErrorCode.fenced_leader_epoch:
            return Stop()
        if answer.error is ErrorCode.offset_out_of_range:
            self._leader_high_watermark = 0
            return StartAt(answer.log_start_offset)
        if answer.error is not ErrorCode.none:
            return Retry(answer.error)
        if answer.diverging is not None:
            self._leader_high_watermark = 0  # it says nothing about a log that is not yet like the leader's
            return TruncateTo(truncation_offset(self._log, answer.diverging))
        self._leader_high_watermark = answer.high_watermark
        self._leader_log_start_offset = answer.log_start_offset
        if answer.has_records:
            return AppendRecords()
        self.flushed()
        return FetchAgain()

    def flushed(self) -> bool:
        """What an answer led to is on disk; whether the high watermark moved.

        It goes back only with the log itself, after an election that was not clean.
        """
        before, log = self.high_watermark, self._log
        committed = min(max(before, self._leader_high_watermark), log.flushed_end_offset)
        self.high_watermark = max(committed, log.log_start_offset)  # only what is committed is ever deleted
        return self.high_watermark != before

    @property
    def confirmed_end_offset(self) -> int:
        """All before is committed, and was found in this epoch to be what the leader has.

        The high watermark does not say that: it is kept from one epoch to the next, and after an election
        that was not clean the log may be cut below it.
        """
        return min(self._leader_high_watermark, self._log.flushed_end_offset)

    @property
    def log_start_offset(self) -> int:
        """Where our log should start, following the leader's; all before is to be deleted."""
        return max(self._log.log_start_offset, min(self._leader_log_start_offset, self.high_watermark))
