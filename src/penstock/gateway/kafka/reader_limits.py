"""The limits of reading, each with its name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderLimits:
    fetch_bytes_max: int = 256 * 1024
    """Of one fetch, unless told otherwise; a larger batch comes whole. Opening it holds up everybody else."""
    fetches_max: int = 16
    """Answers in memory at once, of readers that are catching up."""
    poll_wait_ms: int = 2_000
    """How long a broker keeps a fetch at the end of a log before it says that nothing came."""
    tail_bytes_max: int = 1024 * 1024
    """The newest records of a partition that is being followed, kept for followers a little behind."""
    connect_s_max: float = 3.0
    answer_s_max: float = 5.0
    """For a broker to answer, beyond the time that it was asked to wait."""
    unavailable_s_max: float = 30.0
    """How long a reader waits for a leader before KafkaUnavailableError."""
    topic_gone_s_max: float = 2.0
    """How long a topic that was known may be missing: a broker that starts again may not know it yet."""
    backoff_s_min: float = 0.02
    backoff_s_max: float = 0.5
    metadata_age_s_max: float = 10.0
    """Afterwards the cluster is asked in the background whether it is still as it was."""
    partitions_age_s_max: float = 1.0
    """How old the list of a topic's partitions may be."""
    preferred_replica_s_max: float = 60.0
    """Afterwards the leader is asked again which replica is the best."""
    topics_max: int = 20_000
    """Topics of which metadata is remembered."""
    idle_polls_max: int = 32
    """Connections for long polls that are kept for the next one."""
