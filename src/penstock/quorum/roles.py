"""What a node that does not lead is in an epoch. Deadlines are plain numbers."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Unattached:
    """Knows no leader. A voter asks for votes at the deadline; an observer goes on looking for a leader."""

    deadline_ms: int


@dataclass(slots=True)
class Asking:
    """Counts votes. In a pre-vote it only asks whether an election would succeed, before it disturbs anybody
    with a new epoch."""

    deadline_ms: int
    is_pre_vote: bool
    granted: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Follower:
    leader_id: int
    election_ms: int
    """By then the leader must have answered a fetch."""
    next_fetch_ms: int | None = None
    answer_due_ms: int | None = None
    """Of the fetch under way. Without one, and without a next one, what it brought is on its way to disk."""
    high_watermark: int = 0
    """The leader's, as last told; it counts when all before it is on disk."""
    has_fetched: bool = False

    @property
    def deadline_ms(self) -> int:
        times = (self.election_ms, self.next_fetch_ms, self.answer_due_ms)
        return min(time for time in times if time is not None)
