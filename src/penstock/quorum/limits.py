"""How long the quorum waits. Safety does not depend on any of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

OBSERVER_PATIENCE: Final = 4
"""Times the limits of a voter: nothing depends on an observer, and there may be many."""

SOON_MS_MAX: Final = 250

EPOCHS_MISSED_MAX: Final = 1_000_000
"""Elections that a node may have missed: of one every second, those of eleven days."""


@dataclass(frozen=True, slots=True)
class QuorumLimits:
    election_ms_min: int = 1000
    election_ms_max: int = 2000
    """A follower that has not heard from the leader for a time between the two asks for votes.

    A leader whose process is gone is noticed at once, by the refused connection. This is for one that hangs,
    and must be longer than one that is only busy may take to answer: on two cores under full load that was
    seen to be more than half a second.
    """
    fetch_wait_ms_max: int = 150
    """The leader answers a fetch after this time even if there is nothing new: it is the heartbeat."""
    resign_ms: int = 3000
    """A leader that a majority has not fetched from for this long is not the leader, or no use as one."""
    announce_ms: int = 200
    """Between two messages to a voter that has not fetched from its new leader."""
    retry_ms: int = 50
    """Between two attempts to reach a node that refused or did not answer."""
    request_ms_max: int = 900
    """An answer that has not come by then does not come."""

    @classmethod
    def of_election(cls, ms_min: int, ms_max: int) -> QuorumLimits:
        """With the waits that depend on it in the same proportion."""
        return cls(ms_min, ms_max, resign_ms=ms_max * 3 // 2, request_ms_max=ms_min * 9 // 10)

    @property
    def soon_ms(self) -> int:
        """When the leader is known to be gone: time for one to be elected before the next one tries."""
        return min(SOON_MS_MAX, self.election_ms_min // 2)
