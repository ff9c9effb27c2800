"""Plain counters, owned by the event-loop thread; the admin endpoint reads them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Metrics:
    bytes_in: int = 0
    bytes_out: int = 0
    connections_failed: int = 0
    """Closed by the broker because of what the peer did."""
    requests: Counter[int] = field(default_factory=Counter)
    """By API key."""
    batches_appended: int = 0
    batches_duplicate: int = 0
    flushes: int = 0
    consumed_removed: int = 0
    """Offsets that went because no subscription needed them any more."""
    consumed_lost: int = 0
    """Offsets that a subscription had not got when a ceiling took them, for each such subscription."""
    scrubbed_bytes: int = 0
    scrub_damage_found: int = 0
    """Damaged stretches that nobody knew of before."""
    scrub_repaired: int = 0
    """Damaged stretches that were filled with what another replica has."""
    scrub_disagreements: int = 0
    """Ranges of a follower that were good by themselves, and not what its leader has."""
