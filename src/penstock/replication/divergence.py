"""Where two logs agree for the last time, by leader epochs and never by high watermark (KIP-101, KIP-279).

Two logs that hold the same epoch hold the same entries of it, up to the shorter one's end: an epoch has one
leader, and who leads only appends. So the follower names its last epoch, and the leader the largest epoch
that it knows up to that, with its end. If the follower does not know that one either, it truncates to the end
of the largest that it knows below, and asks again; each question goes to a lower epoch.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class LogEnd(NamedTuple):
    """How far a log reaches; in an election the greater one holds more of what may be committed."""

    last_epoch: int
    end_offset: int


class EpochsView(Protocol):
    @property
    def latest(self) -> int: ...

    def end_offset(self, epoch: int, log_end_offset: int, /) -> tuple[int, int]: ...

    def epoch_at(self, offset: int, /) -> int: ...


class LogView(Protocol):
    """How far a log reaches; a PartitionLog is one."""

    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def flushed_end_offset(self) -> int: ...
    @property
    def epochs(self) -> EpochsView: ...


def maybe_divergence(leader: LogView, follower: LogEnd) -> LogEnd | None:
    """What the leader answers to a follower whose log ends like this; None if that is how its own began."""
    if follower.end_offset == 0 and follower.last_epoch < 0:
        return None  # not so one that led, and wrote nothing: its epoch must go before ours can follow
    epoch, end_offset = leader.epochs.end_offset(follower.last_epoch, leader.log_end_offset)
    if epoch == follower.last_epoch and follower.end_offset <= end_offset:
        return None
    return LogEnd(epoch, end_offset)


def truncation_offset(follower: LogView, diverging: LogEnd) -> int:
    """What the follower makes of it: it keeps all before this offset."""
    epoch, end_offset = follower.epochs.end_offset(diverging.last_epoch, follower.log_end_offset)
    offset = min(end_offset, diverging.end_offset) if epoch == diverging.last_epoch else end_offset
    return max(offset, follower.log_start_offset)
