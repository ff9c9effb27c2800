"""Which bytes of a segment are known to be good: those that this process wrote, or has read and checked."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

RANGES_MAX = 64
"""Per segment. A reader from the start needs one; who jumps about makes more, and may make some forgotten."""


class CheckedRanges:
    """Disjoint ranges of bytes, ascending. What is forgotten is only checked once more."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __len__(self) -> int:
        return len(self._starts)

    def end_of(self, position: int) -> int:
        """Where the range ends that holds the position; the position itself if none does."""
        at = bisect_right(self._starts, position) - 1
        return max(position, self._ends[at]) if at >= 0 else position

    def add(self, start: int, end: int) -> None:
        starts, ends = self._starts, self._ends
        if ends and ends[-1] == start:  # every append, and mostly a reader from the start
            ends[-1] = end
            return
        first, last = bisect_left(ends, start), bisect_right(starts, end)
        if first < last:
            start, end = min(start, starts[first]), max(end, ends[last - 1])
        starts[first:last], ends[first:last] = [start], [end]
        if len(starts) > RANGES_MAX:
            shortest = min(range(len(starts)), key=lambda at: ends[at] - starts[at])
            del starts[shortest], ends[shortest]

    def truncate(self, position: int) -> None:
        """Forget everything from `position` on."""
        kept = bisect_left(self._starts, position)
        del self._starts[kept:], self._ends[kept:]
        if self._ends:
            self._ends[-1] = min(self._ends[-1], position)
