"""What a log is told about itself: Kafka's topic configs in typed form."""

from __future__ import annotations

import enum
from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
DAY_MS = 24 * 60 * 60 * 1000
NO_LIMIT = -1
INDEX_INTERVAL_BYTES = 64 * KIB


class Flush(enum.Enum):
    """When written bytes count as flushed."""

    COMMIT = "commit"
    """After fdatasync: acknowledged means on disk."""
    OS = "os"
    """After write(): the operating system brings them to disk in its own time, as Kafka leaves it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    segment_bytes: int = GIB
    segment_ms: int = 7 * DAY_MS
    retention_ms: int = 7 * DAY_MS
    """NO_LIMIT keeps for ever."""
    retention_bytes: int = NO_LIMIT
    delete: bool = True
    """`cleanup.policy` contains `delete`."""
    compact: bool = False
    """`cleanup.policy` contains `compact`."""
    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    min_cleanable_dirty_ratio: float = 0.5
    flush: Flush = Flush.COMMIT
    index_interval_bytes: int = INDEX_INTERVAL_BYTES
    producer_expiration_ms: int = DAY_MS
    cuts_damaged_end: bool = False
    """Other replicas have what a damaged end held: cut it where one would otherwise have to decide."""

    @property
    def roll_ms(self) -> int:
        """The active segment is never compacted, so a bound on that lag also bounds its age."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compact else self.segment_ms
