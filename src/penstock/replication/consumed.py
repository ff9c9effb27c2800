"""Consumed retention: what of a partition nobody needs any more. Pure; the rounds are in the broker.

A *subscription* is a group that has committed a position in the topic, in any of its partitions; where it has
none it has got nothing yet, as when a partition was added. In each round the leader of a partition

1. notes its *end*: the last stable offset, which is not beyond the high watermark;
2. asks all coordinators for the positions of all groups. Each proves that it is the coordinator by a write,
   which is committed only after it was asked. If one is missing, or not sure, nothing is removed this round;
3. removes what lies before all positions *and* before the end that was noted in the round before.

Why nothing goes that a subscription still needs, whatever fails when:

- *A subscription that was there when the round began is counted.* Its position was committed, by a leader of
  some epoch of its partition of `__consumer_offsets`. Whoever answers for this partition has written in its
  own epoch after it was asked, on all in-sync replicas, and only these are elected: so no leader of a later
  epoch existed before. And what earlier ones committed is part of its log. So it knows the position, or a
  later one of the same subscription. Positions in a transaction count as soon as they are written, which is
  before the transaction is decided.
- *One that came after begins after what goes.* A new subscription begins at the high watermark. If that was
  read after the round began, it is not before the end that was noted then. If it was read earlier, by a
  subscription that is still being made, the end of the round before is what saves it, unless making it takes
  longer than a round. A client that wants to be sure whatever it takes commits the start of the log first,
  which holds everything from then on, then reads the high watermark, and commits that. (Who begins at the
  start of the log has no claim to what others have got, until its first position is committed.)
- *Nothing is decided twice.* What was learned in a round is used in it or not at all, in one step that begins
  with a look at whether this is still the leader in the same epoch. A leader that was replaced and does not
  know it does no harm either: its end is one that all later leaders have reached.
- *No crash matters.* What is removed is a prefix, by the durable log start, as with DeleteRecords: replicas
  that did not hear of it have more, not less. And nothing else is remembered: a new leader begins with its
  first round, which removes nothing.

Clocks only delay: the grace time of topics without subscriptions counts from when the leader saw that there
is none, and what then goes is what was there at that time. Two things take from a subscription what it needs,
both because somebody said so: a ceiling of time or size, which is reported, and deleting records or offsets.
An election that was not clean, which the cluster log reports, may lose positions, as it may lose messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

NOTHING = 0
"""There is nothing before the offset 0."""


class Removal(NamedTuple):
    before: int
    """The offset at which the log starts then."""
    reason: str
    lost: Mapping[str, int]
    """Where the subscriptions stood that had not got all of it."""


@dataclass(frozen=True, slots=True)
class _Unread:
    since_ms: int
    end_offset: int


class ConsumedPartition:
    """One partition in one leader epoch, round by round."""

    def __init__(self) -> None:
        self._end_offset = NOTHING
        self._limit = NOTHING
        self._unread: _Unread | None = None

    def begin_round(self, end_offset: int) -> int:
        """To be called before anybody is asked; how far this round may go at most."""
        self._limit, self._end_offset = self._end_offset, end_offset
        return self._limit

    def decide(self, readers: Mapping[str, int], *, now_ms: int, grace_ms: int, ceiling: int) -> Removal:
        """`readers`: see `readers_of`. `ceiling`: what comes before it goes in any case."""
        if readers:
            self._unread = None
            before = min(self._limit, *readers.values())
            reason = f"got by all subscriptions ({len(readers)})"
        else:
            before = self._before_grace(now_ms, grace_ms)
            reason = f"without a subscription for retention.consumed.grace.ms={grace_ms}"
        if before >= ceiling:
            return Removal(before, reason, {})
        lost = {group: offset for group, offset in sorted(readers.items()) if offset < ceiling}
        return Removal(ceiling, "beyond retention.consumed.ms or retention.consumed.bytes", lost)

    def _before_grace(self, now_ms: int, grace_ms: int) -> int:
        """What was there already when the grace time began, if it is over; then the next one begins."""
        unread = self._unread or _Unread(now_ms, self._end_offset)
        is_over = now_ms - unread.since_ms >= grace_ms
        self._unread = _Unread(now_ms, self._end_offset) if is_over else unread
        return min(unread.end_offset, self._limit) if is_over else NOTHING


def readers_of(
    groups: Mapping[str, Mapping[int, int]], partition: int, high_watermark: int
) -> dict[str, int]:
    """Where each subscription of a topic stands in a partition of it.

    A position beyond what there is belongs to something else, such as an earlier topic of the same name.
    """
    positions = {group: offsets.get(partition, 0) for group, offsets in groups.items()}
    return {group: offset for group, offset in positions.items() if offset <= high_watermark}
