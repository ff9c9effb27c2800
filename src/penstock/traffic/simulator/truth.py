"""What was really written: with this the result of whoever counts positions can be compared, exactly.

Only what was acknowledged counts, so `sent` is what the topics hold and always the sum of its kinds.
`cells` has the good ones, each in its cell and window. Positions whose write failed may be stored or not:
they are `unknown`, and part of nothing else. As long as there are none, everything else is exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from penstock.traffic.grid import Grid
    from penstock.traffic.position import Position

WINDOW_MS: Final = 5_000


class Truth:
    """
    >>> from penstock.traffic import DEFAULT_GRID, Position
    >>> truth = Truth(DEFAULT_GRID)
    >>> truth.add_good(Position(7, 49.2551, -123.0851, ts=ts) for ts in (12_000, 14_999))
    >>> truth.late += 1
    >>> truth.as_dict()["sent"], truth.as_dict()["cells"]
    (3, {'24.23.10000': 2})
    """

    def __init__(self, grid: Grid, *, window_ms: int = WINDOW_MS, with_cells: bool = True) -> None:
        """Without cells it stays small however long it is used."""
        if window_ms < 1:
            raise ValueError(f"a window has at least one millisecond, not {window_ms}")
        self._grid = grid
        self._window_ms = window_ms
        self._cells: dict[tuple[int, tuple[int, int]], int] | None = {} if with_cells else None
        self.good = self.duplicates = self.late = self.broken = self.unknown = 0

    @property
    def sent(self) -> int:
        return self.good + self.duplicates + self.late + self.broken

    def add_good(self, positions: Iterable[Position]) -> None:
        cells = self._cells
        cell_index, window_ms = self._grid.cell_index, self._window_ms
        count = 0
        for position in positions:
            count += 1
            if cells is not None:
                ts = position.ts
                key = (ts - ts % window_ms, cell_index(position.lat, position.lon))
                cells[key] = cells.get(key, 0) + 1
        self.good += count

    def counts(self) -> dict[str, int]:
        return {
            "sent": self.sent,
            "good": self.good,
            "duplicates": self.duplicates,
            "late": self.late,
            "broken": self.broken,
            "unknown": self.unknown,
        }

    def as_dict(self) -> dict[str, Any]:
        """`cells` by `<row>.<col>.<start of the window in ms>`, window after window."""
        cells = {
            f"{row}.{col}.{start_ms}": count
            for (start_ms, (row, col)), count in sorted((self._cells or {}).items())
        }
        return {**self.counts(), "window_ms": self._window_ms, "cells": cells}
