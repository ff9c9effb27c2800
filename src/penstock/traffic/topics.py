"""The topics of the traffic application: their names and what they are made of.

| topic | key | value | kept |
|---|---|---|---|
| `traffic.r<row>.c<col>`, one for each quadrant | car | a position | as the cluster keeps topics |
| `traffic.heatmap` | cell and window, or `totals` | the newest figure | the newest of each key, for an hour |
| `traffic.map` | `grid`, `streets` | the map that all agree on | the newest of each key |
| `traffic.contributions` | car | when it wrote last | the newest of each key, for an hour |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from penstock.client.topic_plan import TopicPlan

QUADRANT_PATTERN: Final = r"traffic\.r\d+\.c\d+"
HEATMAP: Final = "traffic.heatmap"
MAP: Final = "traffic.map"
CONTRIBUTIONS: Final = "traffic.contributions"

QUADRANT_PARTITIONS: Final = 4
RETENTION_MS: Final = 3_600_000
SEGMENT_MS: Final = 600_000
"""Compaction and retention leave the newest segment alone, so it must not live for long."""

_QUADRANT: Final = re.compile(r"traffic\.r(0|[1-9]\d{0,8})\.c(0|[1-9]\d{0,8})")


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
        TopicPlan(CONTRIBUTIONS, 4, {**_NEWEST_FOR_AN_HOUR, **_STAMPED_BY_BROKERS}, one_leader=True),
    )
}
"""Those that are not quadrants."""


def quadrant_plan(name: str, number: int | None = None) -> TopicPlan:
    """Of a topic with positions: one broker leads it as a whole, and another one the next."""
    return TopicPlan(name, QUADRANT_PARTITIONS, _STAMPED_BY_BROKERS, one_leader=True, number=number)


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
