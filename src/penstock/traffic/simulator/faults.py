"""Positions that should not be counted: the same again, too late, and broken ones.

Duplicates are the very same position, some right behind the first and some seconds later, but before
anybody could take them for late. Late ones are real positions with an old timestamp: minutes old, which is
behind the watermark of whoever has counted for a while, or days. There are none at the beginning of a run,
where a watermark may not exist yet. How broken ones look is in `broken`.

Shares are of the good positions, and exact over time: of 1,000 positions with a share of 0.01, 10 are
repeated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Final

from penstock.traffic.position import Position
from penstock.traffic.simulator.broken import Record, broken_kinds, broken_record

if TYPE_CHECKING:
    from penstock.traffic.grid import Grid

LATE_AFTER_MS: Final = 20_000
LATE_MS: Final = (10 * 60_000, 60 * 60_000)
ANCIENT_MS: Final = (2 * 86_400_000, 7 * 86_400_000)
REPEAT_AFTER_MS: Final = 2_000
REPEAT_MS_MAX: Final = 6_000
"""A repetition that could not be sent until then is not sent: it could count as late."""


class Faults:
    def __init__(
        self, grid: Grid, random: Random, *, duplicates: float = 0.0, late: float = 0.0, broken: float = 0.0
    ) -> None:
        self._grid = grid
        self._random = random
        self._shares = {"at_once": duplicates / 2, "repeated": duplicates / 2, "late": late, "broken": broken}
        self._owed = dict.fromkeys(self._shares, 0.0)
        self._to_repeat: deque[Position] = deque()
        self._late_from_ms: int | None = None
        self._kinds = broken_kinds(grid)
        self._broken_so_far = 0

    def duplicates(self, good: Sequence[Position], ts: int) -> list[Position]:
        """Of the positions that are about to be written, and of those that were written seconds ago."""
        found = self._pick("at_once", good)
        while self._to_repeat and self._to_repeat[0].ts <= ts - REPEAT_AFTER_MS:
            position = self._to_repeat.popleft()
            if position.ts >= ts - REPEAT_MS_MAX:
                found.append(position)
        return found

    def written(self, good: Sequence[Position]) -> None:
        """These were acknowledged: some of them will be repeated."""
        self._to_repeat.extend(self._pick("repeated", good))

    def late(self, good: Sequence[Position], ts: int) -> list[Position]:
        """Where cars are now, with a timestamp of long ago."""
        if self._late_from_ms is None:
            self._late_from_ms = ts + LATE_AFTER_MS
        if ts < self._late_from_ms:
            return []
        return [
            Position(each.car, each.lat, each.lon, each.speed, each.heading, each.ts - self._age_ms())
            for each in self._pick("late", good)
        ]

    def broken(self, good: Sequence[Position]) -> list[Record]:
        """Every kind in turn."""
        records = []
        for position in self._pick("broken", good):
            kind = self._kinds[self._broken_so_far % len(self._kinds)]
            self._broken_so_far += 1
            records.append(broken_record(kind, position, self._grid))
        return records

    def _pick(self, kind: str, good: Sequence[Position]) -> list[Position]:
        if not good:
            return []
        self._owed[kind] += self._shares[kind] * len(good)
        count = int(self._owed[kind] + 1e-9)
        self._owed[kind] -= count
        return self._random.sample(good, min(count, len(good)))

    def _age_ms(self) -> int:
        return self._random.randint(*(LATE_MS if self._random.random() < 0.5 else ANCIENT_MS))
