"""The topics of the traffic application: their names, what they are made of, and where their replicas go.

| topic | key | value | kept |
|---|---|---|---|
| `traffic.r<row>.c<col>`, one for each quadrant | car | a position | as the cluster keeps topics |
| `traffic.heatmap` | cell and window, or `totals` | the newest figure | the newest of each key, for an hour |
| `traffic.map` | `grid`, `streets` | the map that all agree on | the newest of each key |
| `traffic.contributions` | car | when it wrote last | the newest of each key, for an hour |
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

QUADRANT_PATTERN: Final = r"traffic\.r\d+\.c\d+"
HEATMAP: Final = "traffic.heatmap"
MAP: Final = "traffic.map"
CONTRIBUTIONS: Final = "traffic.contributions"

QUADRANT_PARTITIONS: Final = 4
REPLICAS: Final = 3
"""As many where there are as many brokers."""
RETENTION_MS: Final = 3_600_000
SEGMENT_MS: Final = 600_000
"""Compaction and retention leave the newest segment alone, so it must not live for long."""

_QUADRANT: Final = re.compile(r"traffic\.r(0|[1-9]\d{0,8})\.c(0|[1-9]\d{0,8})")


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """What a topic is created with."""

    name: str
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)


_NEWEST_FOR_AN_HOUR: Final = {
    "cleanup.policy": "compact,delete",
    "retention.ms": str(RETENTION_MS),
    "segment.ms": str(SEGMENT_MS),
}

_STAMPED_BY_BROKERS: Final = {"message.timestamp.type": "LogAppendTime"}
"""When something was written is not for its writer to say."""

SHARED_PLANS: Final[Mapping[str, TopicPlan]] = {
    plan.name: plan
    for plan in (
        TopicPlan(HEATMAP, 1, _NEWEST_FOR_AN_HOUR),
        TopicPlan(MAP, 1, {"cleanup.policy": "compact"}),
        TopicPlan(CONTRIBUTIONS, 4, {**_NEWEST_FOR_AN_HOUR, **_STAMPED_BY_BROKERS}),
    )
}
"""Those that are not quadrants."""


def quadrant_plan(name: str) -> TopicPlan:
    """Of a topic with positions."""
    return TopicPlan(name, QUADRANT_PARTITIONS, _STAMPED_BY_BROKERS)


def quadrant_topic(row: int, col: int) -> str:
    """
    >>> quadrant_topic(0, 1)
    'traffic.r0.c1'
    """
    return f"traffic.r{row}.c{col}"


def parse_quadrant_topic(name: str) -> tuple[int, int] | None:
    """Row and column, if the name is one that `quadrant_topic` gives.

    >>> parse_quadrant_topic("traffic.r0.c1")
    (0, 1)
    >>> parse_quadrant_topic("traffic.heatmap")
    """
    found = _QUADRANT.fullmatch(name)
    return (int(found[1]), int(found[2])) if found else None


def replica_assignment(plan: TopicPlan, brokers: Sequence[int], first: int) -> list[list[int]]:
    """The replicas of each partition: the same for all, so that one broker leads the whole topic.

    `first` picks that broker; topics that are to be spread count it up.

    >>> replica_assignment(quadrant_plan("traffic.r0.c1"), [1, 2, 3, 4], 3)
    [[4, 1, 2], [4, 1, 2], [4, 1, 2], [4, 1, 2]]
    """
    ordered = sorted(brokers)
    count = min(REPLICAS, len(ordered))
    replicas = [ordered[(first + step) % len(ordered)] for step in range(count)]
    return [list(replicas) for _ in range(plan.partitions)]


def name_number(name: str) -> int:
    """A number for topics that nothing else gives one, the same in every process."""
    return crc32(name.encode())
