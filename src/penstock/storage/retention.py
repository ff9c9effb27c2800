"""Which segments time and size condemn, and when the active one is closed so that it can go. Pure.

Only closed segments go, oldest first, and only those that lie wholly below the bound (the high watermark).
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from penstock.storage.config import KIB
from penstock.wire.batch import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.storage.config import LogConfig
    from penstock.storage.interface import SegmentInfo


ROLL_BYTES_MIN: Final = 64 * KIB
"""What a log may hold although nobody can read it any more: less is not worth a new segment."""


def condemned(segments: Sequence[SegmentInfo], config: LogConfig, now_ms: int, bound: int) -> list[str]:
    """One reason for each segment, from the oldest, that has to go."""
    reasons: list[str] = []
    excess = sum(segment.size for segment in segments) - config.retention_bytes
    for segment, successor in pairwise(segments):
        if successor.base_offset > bound:
            break
        if is_expired(segment, config, now_ms):
            reasons.append(f"older than retention.ms={config.retention_ms}")
        elif config.retention_bytes >= 0 and excess >= segment.size:
            reasons.append(f"more than retention.bytes={config.retention_bytes}")
        else:
            break
        excess -= segment.size
    return reasons


def is_expired(segment: SegmentInfo, config: LogConfig, now_ms: int) -> bool:
    if config.retention_ms < 0 or segment.max_timestamp == NO_TIMESTAMP:
        # A segment that compaction emptied has no time; it goes with the first expired one after it or stays,
        # which costs nothing.
        return config.retention_ms >= 0 and segment.size == 0
    return now_ms - segment.max_timestamp > config.retention_ms


def active_is_expired(segments: Sequence[SegmentInfo], config: LogConfig, now_ms: int, bound: int) -> bool:
    """Everything is too old, so that the active segment has to be closed and go as well."""
    if not segments or not segments[-1].size or segments[-1].end_offset > bound:
        return False
    return all(is_expired(segment, config, now_ms) for segment in segments)


def segments_before(segments: Sequence[SegmentInfo], offset: int) -> int:
    """How many closed segments lie wholly before the offset."""
    count = 0
    for successor in segments[1:]:
        if successor.base_offset > offset:
            break
        count += 1
    return count


def is_mostly_before(base_offset: int, size: int, *, end_offset: int, offset: int) -> bool:
    """Whether a segment is worth closing early: most of it lies before the offset, and it is not small."""
    return size >= ROLL_BYTES_MIN and 2 * (offset - base_offset) >= end_offset - base_offset
