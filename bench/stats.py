"""The arithmetic of the table: medians, percentiles, ratios and how they are judged. Pure."""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


class Mark(enum.Enum):
    AIM = "aim met"
    BAR = "bar met"
    BELOW = "below the bar"
    REPORTED = "reported"
    FAILED = "failed"
    LEFT_OUT = "left out, no time left"
    UNAVAILABLE = "not available here"


@dataclass(frozen=True, slots=True)
class Target:
    """What a ratio is held to. `at_least` tells whether more is better."""

    bar: float
    aim: float
    at_least: bool = True

    def judge(self, ratio: float) -> Mark:
        if self.reached(ratio, self.aim):
            return Mark.AIM
        return Mark.BAR if self.reached(ratio, self.bar) else Mark.BELOW

    def reached(self, ratio: float, limit: float) -> bool:
        return ratio >= limit if self.at_least else ratio <= limit

    def text(self, limit: float) -> str:
        return f"{'≥' if self.at_least else '≤'} {limit:.3g}×"


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all values do not exceed."""
    if not values:
        raise ValueError("no values")
    if not 0 < share <= 1:
        raise ValueError(f"share {share} is not in (0, 1]")
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median over the rounds of ours / theirs of the same round.

    Both sides of a round ran right after one another, so a slow minute of the machine cancels out.
    """
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} rounds beside {len(theirs)}")
    return median([our / their for our, their in zip(ours, theirs, strict=True)])


def spread(values: Sequence[float]) -> float:
    """How far the rounds lie apart: (max - min) / median."""
    return (max(values) - min(values)) / median(values)
