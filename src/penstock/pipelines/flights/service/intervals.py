"""A set of whole numbers that mostly come in order, kept as few ranges. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable


class Intervals:
    """However many messages have come, and in whatever order, this has one range for each gap."""

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        """`ranges` as `as_ranges` gave them."""
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in ranges:
            self._starts.append(start)
            self._ends.append(end)

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._starts, number) - 1
        return at >= 0 and number < self._ends[at]

    def __len__(self) -> int:
        return sum(self._ends) - sum(self._starts)

    def add(self, number: int) -> bool:
        """Whether it was not there."""
        at = bisect_right(self._starts, number) - 1
        if at >= 0 and number < self._ends[at]:
            return False
        joins_before = at >= 0 and self._ends[at] == number
        joins_after = at + 1 < len(self._starts) and self._starts[at + 1] == number + 1
        if joins_before and joins_after:
            self._ends[at] = self._ends.pop(at + 1)
            del self._starts[at + 1]
        elif joins_before:
            self._ends[at] += 1
        elif joins_after:
            self._starts[at + 1] = number
        else:
            self._starts.insert(at + 1, number)
            self._ends.insert(at + 1, number + 1)
        return True

    @property
    def next(self) -> int:
        """The first that is missing."""
        return self._ends[0] if self._starts and self._starts[0] == 0 else 0

    @property
    def end(self) -> int:
        """One more than the largest."""
        return self._ends[-1] if self._ends else 0

    def as_ranges(self) -> list[tuple[int, int]]:
        return list(zip(self._starts, self._ends, strict=True))
