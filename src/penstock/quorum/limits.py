"""How long the quorum waits. Safety does not depend on any of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

OBSERVER_PATIENCE: Final = 4
"""Times the limits of a voter: nothing depends on an observer, and there may be many."""


@dataclass(frozen=True, slots=True)
class QuorumLimits:
    election_ms_min: int = 500
    election_ms_max: int = 1000
    """A follower that has not heard from the leader for a time between the two asks for votes."""
    fetch_wait_ms_max: int = 150
    """The leader answers a fetch after this time even if there is nothing new: it is the heartbeat."""
    resign_ms: int = 1500
    """A leader that a majority has not fetched from for this long is not the leader, or no use as one."""
    announce_ms: int = 200
    """Between two messages to a voter that has not fetched from its new leader."""
    retry_ms: int = 50
    """Between two attempts to reach a node that refused or did not answer."""
    request_ms_max: int = 400
    """An answer that has not come by then does not come."""
