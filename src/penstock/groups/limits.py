"""The named limits and delays of consumer groups, with Kafka's names and, but for three, its defaults."""

from __future__ import annotations

from dataclasses import dataclass

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    session_timeout_ms_min: int = 6_000
    """`group.min.session.timeout.ms`."""
    session_timeout_ms_max: int = 30 * MINUTE_MS
    """`group.max.session.timeout.ms`."""
    rebalance_timeout_ms_max: int = 24 * 60 * MINUTE_MS
    """The longest that a join phase waits for one member, whatever it asks for; Kafka has no limit."""
    initial_rebalance_delay_ms: int = 100
    """`group.initial.rebalance.delay.ms`. Kafka waits 3 s for further members of a new group; a tenth of a
    second gathers members that start together and lets a lone consumer read at once."""
    group_size_max: int = 10_000
    """`group.max.size`, which Kafka leaves open. Also bounds ids handed out and not yet used."""
    new_member_join_timeout_ms: int = 5 * MINUTE_MS
    """A member that joins for the first time and vanishes cannot be noticed by its heartbeats."""
    offset_metadata_bytes_max: int = 4_096
    """`offset.metadata.max.bytes`."""
    offsets_retention_ms: int = 7 * 24 * 60 * MINUTE_MS
    """`offsets.retention.minutes`."""
    offsets_retention_check_interval_ms: int = 10 * MINUTE_MS
    """`offsets.retention.check.interval.ms`."""
