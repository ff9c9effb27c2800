"""What a replica asks its leader for, what it may be answered, and when that is a refusal.

The fetch names the leader epoch in which it is meant, and the last epoch and the end of the replica's log.
All before that end is on the replica's disk, so that a fetch is also an acknowledgement. The leader answers
with records only if that log is how its own began.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.replication.divergence import LogEnd, maybe_divergence
from penstock.types import ErrorCode

if TYPE_CHECKING:
    from penstock.replication.divergence import LogView

NO_EPOCH = -1
"""Of a log without records."""


class ReplicaFetch(NamedTuple):
    leader_epoch: int
    offset: int
    """The end of the replica's log: all before is flushed."""
    last_epoch: int
    """The epoch of the last record before; NO_EPOCH where there is none."""
    log_start_offset: int


class ReplicaAnswer(NamedTuple):
    """Neither with an error nor with `diverging` records come along."""

    error: ErrorCode = ErrorCode.none
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging: LogEnd | None = None
    has_records: bool = False


def maybe_refuse(
    leader_epoch: int, log: LogView, high_watermark: int, fetch: ReplicaFetch
) -> ReplicaAnswer | None:
    """What the leader of this epoch, with this log, says to a fetch that must not be given records."""
    error = _epoch_error(leader_epoch, fetch)
    if error is None and _is_out_of_range(log, fetch):
        error = ErrorCode.offset_out_of_range
    if error is not None:
        return ReplicaAnswer(error, high_watermark, log.log_start_offset)
    if fetch.last_epoch == NO_EPOCH:
        return None  # an empty log is how every other begins
    diverging = maybe_divergence(log, LogEnd(fetch.last_epoch, fetch.offset))
    if diverging is None:
        return None
    return ReplicaAnswer(ErrorCode.none, high_watermark, log.log_start_offset, diverging)


def _is_out_of_range(log: LogView, fetch: ReplicaFetch) -> bool:
    start = log.log_start_offset
    if fetch.last_epoch == NO_EPOCH:
        return not start <= fetch.offset <= log.log_end_offset
    if fetch.offset != start:
        return fetch.offset < start  # what is beyond our end is a divergence
    # It ends where we start. What it has may be different from what we deleted if it is of an epoch of which
    # we know no more; and nobody may read that.
    return fetch.last_epoch < log.epochs.epoch_at(start)


def _epoch_error(leader_epoch: int, fetch: ReplicaFetch) -> ErrorCode | None:
    if fetch.leader_epoch < leader_epoch:
        return ErrorCode.fenced_leader_epoch
    if max(fetch.leader_epoch, fetch.last_epoch) > leader_epoch:
        # Also if only its records are newer: it must not truncate them by the word of a leader of the past.
        return ErrorCode.unknown_leader_epoch
    return None
