"""Counting positions: the pure heart of the heat map job, in columns.

`tally` takes what is known so far (State), the positions of one micro-batch and the watermark, and gives what
is known then, the cells that changed and the totals. It has no clock and no chance: the same batches give the
same answer, and as long as nothing is late any other division into batches ends with the same counts.

Each position that was sent ends in exactly one place, looked for in this order:

    malformed   transforms.py found a reason; it has no window
    late        its window is closed: the window's end is at or before the watermark
    duplicate   the same car has been counted with the same `ts`
    counted     in one cell of one window

A position is the same if its key is, a hash of 64 bits of (car, ts). Keys are compared within one window
only, and are kept as long as the window is open. For a false duplicate two of a window's keys must meet: at
20,000 positions per second and windows of 5 s that is expected once in some 600 years.

A window is kept until the one after it is closed as well: a cell that was counted in the first and not in the
second is then published as 0, once. Speeds are summed in whole metres per hour, because sums of floats depend
on the order of adding, and a batch that is done again must publish the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from penstock.traffic.heat import HeatCell, Totals

if TYPE_CHECKING:
    from penstock.traffic.grid import Grid

Ints = NDArray[np.int64]

REASONS: Final = (
    "json", "car", "lat", "lon", "speed", "heading", "ts", "future", "outside", "elsewhere",
)  # fmt: skip
"""Why a position is malformed, in the order in which it is looked at."""
GOOD: Final = 0
"""The outcome of a position that may be counted; n > 0 is malformed for REASONS[n - 1]."""
ANCIENT: Final = len(REASONS) + 1
"""The outcome of one that is late whatever the watermark is: before there is one it would open a window."""
METRES: Final = 1_000
_NONE: Final[Ints] = np.empty(0, np.int64)


@dataclass(frozen=True)
class Shape:
    """What does not change as long as a state lives."""

    window_ms: int
    grid: Grid

    @property
    def columns(self) -> int:
        """Cells in a row of the map: cell = row * columns + column."""
        return self.grid.cols * self.grid.cells

    def __str__(self) -> str:
        return f"windows of {self.window_ms} ms on the map {self.grid.to_json().decode()}"


@dataclass(frozen=True)
class Positions:
    """One entry for each message; where `outcome` is not GOOD the rest of it means nothing."""

    outcome: NDArray[np.int8]
    ts: Ints
    key: Ints
    cell: Ints
    speed: Ints
    """Metres per hour."""


@dataclass(frozen=True)
class Window:
    start: int
    seen: Ints
    """Keys that were counted, ascending; none once the window is closed."""
    cells: Ints
    """Ascending; `counts` and `speeds`, which are sums, belong to them."""
    counts: Ints
    speeds: Ints


@dataclass(frozen=True)
class State:
    sent: int = 0
    counted: int = 0
    late: int = 0
    duplicate: int = 0
    reasons: tuple[int, ...] = (0,) * len(REASONS)
    newest: int | None = None
    windows: tuple[Window, ...] = ()
    """By start."""


@dataclass(frozen=True)
class Tallied:
    state: State
    cells: list[HeatCell]
    totals: Totals


def tally(state: State, positions: Positions, watermark_ms: int, shape: Shape) -> Tallied:
    outcomes = np.bincount(positions.outcome, minlength=ANCIENT + 1)
    timely = _timely(positions, watermark_ms, shape)
    windows = {window.start: window for window in state.windows}
    changed: list[HeatCell] = []
    counted = 0
    for start, rows in _by_window(positions.ts, timely, shape.window_ms):
        before = windows.get(start) or Window(start, _NONE, _NONE, _NONE, _NONE)
        window, touched = _count(before, positions, rows)
        counted += len(window.seen) - len(before.seen)
        windows[start] = window
        changed.extend(_cells(window, touched, shape))
    zeros = list(_emptied(windows, watermark_ms, shape))
    late = int(np.count_nonzero(positions.outcome == GOOD)) - len(timely) + int(outcomes[ANCIENT])
    after = State(
        sent=state.sent + len(positions.outcome),
        counted=state.counted + counted,
        late=state.late + late,
        duplicate=state.duplicate + len(timely) - counted,
        reasons=tuple(
            before + int(found) for before, found in zip(state.reasons, outcomes[1:ANCIENT], strict=True)
        ),
        newest=_newest(state.newest, positions.ts[timely]),
        windows=tuple(_kept(windows, watermark_ms, shape)),
    )
    return Tallied(after, changed + zeros, totals(after, watermark_ms))


def totals(state: State, watermark_ms: int) -> Totals:
    return Totals(
        sent=state.sent,
        counted=state.counted,
        late=state.late,
        duplicate=state.duplicate,
        malformed=sum(state.reasons),
        reasons={reason: count for reason, count in zip(REASONS, state.reasons, strict=True) if count},
        newest=state.newest,
        watermark=watermark_ms or None,  # Spark's word for "there is none yet" is 0
    )


def _timely(positions: Positions, watermark_ms: int, shape: Shape) -> Ints:
    """The rows that are in a window that is still open."""
    # The first window that is open is the one whose end is after the watermark.
    first_open_ms = watermark_ms // shape.window_ms * shape.window_ms
    return np.flatnonzero((positions.outcome == GOOD) & (positions.ts >= first_open_ms))


def _by_window(ts: Ints, rows: Ints, window_ms: int) -> Iterator[tuple[int, Ints]]:
    """The rows of each window, by its start; usually there are one or two."""
    numbers = ts[rows] // window_ms
    if not len(numbers):
        return
    if numbers.min() == numbers.max():
        yield int(numbers[0]) * window_ms, rows
        return
    order = np.argsort(numbers, kind="stable")
    found, begins = np.unique(numbers[order], return_index=True)
    for number, part in zip(found, np.split(rows[order], begins[1:]), strict=True):
        yield int(number) * window_ms, part


def _count(window: Window, positions: Positions, rows: Ints) -> tuple[Window, Ints]:
    """The window with these rows, and the cells that they changed."""
    fresh = _fresh(window.seen, positions, rows)
    keys = positions.key[fresh]
    touched, place = np.unique(positions.cell[fresh], return_inverse=True)
    cells = np.union1d(window.cells, touched)
    counts, speeds = np.zeros(len(cells), np.int64), np.zeros(len(cells), np.int64)
    old, new = np.searchsorted(cells, window.cells), np.searchsorted(cells, touched)
    counts[old], speeds[old] = window.counts, window.speeds
    counts[new] += np.bincount(place, minlength=len(touched))
    # The weights are floats, and exact: whole numbers far below 2 ** 53.
    sums = np.bincount(place, weights=positions.speed[fresh], minlength=len(touched))
    speeds[new] += sums.astype(np.int64)
    seen = np.concatenate((window.seen, keys))
    seen.sort()
    return replace(window, seen=seen, cells=cells, counts=counts, speeds=speeds), touched


def _fresh(seen: Ints, positions: Positions, rows: Ints) -> Ints:
    """The rows whose key is neither in `seen` nor that of another row before."""
    keys = positions.key[rows]
    ordered = np.sort(keys)
    if len(ordered) > 1 and (ordered[1:] == ordered[:-1]).any():
        # Which of several is counted must not depend on the order in which partitions were read.
        order = np.lexsort((positions.speed[rows], positions.cell[rows], keys))
        rows, keys = rows[order], keys[order]
        first = np.concatenate(([True], keys[1:] != keys[:-1]))
        rows, keys = rows[first], keys[first]
    if not len(seen):
        return rows
    place = np.minimum(np.searchsorted(seen, keys), len(seen) - 1)
    fresh: Ints = rows[seen[place] != keys]
    return fresh


def _cells(window: Window, wanted: Ints, shape: Shape) -> Iterator[HeatCell]:
    """These cells of the window as they are to be published."""
    place = np.searchsorted(window.cells, wanted)
    end = window.start + shape.window_ms
    for cell, count, speed in zip(
        wanted.tolist(), window.counts[place].tolist(), window.speeds[place].tolist(), strict=True
    ):
        row, col = divmod(cell, shape.columns)
        yield HeatCell(row, col, window.start, end, count, round(speed / count / METRES, 3))


def _emptied(windows: dict[int, Window], watermark_ms: int, shape: Shape) -> Iterator[HeatCell]:
    """Zeros for cells of a window that the next window, which is now closed as well, does not have."""
    for start in sorted(windows):
        next_start = start + shape.window_ms
        end = next_start + shape.window_ms
        if end > watermark_ms:
            break
        following = windows[next_start].cells if next_start in windows else _NONE
        for cell in np.setdiff1d(windows[start].cells, following, assume_unique=True).tolist():
            row, col = divmod(cell, shape.columns)
            yield HeatCell(row, col, next_start, end, 0, None)


def _kept(windows: dict[int, Window], watermark_ms: int, shape: Shape) -> Iterator[Window]:
    for start, window in sorted(windows.items()):
        if start + 2 * shape.window_ms <= watermark_ms:
            continue
        closed = start + shape.window_ms <= watermark_ms
        yield replace(window, seen=_NONE) if closed else window


def _newest(before: int | None, ts: Ints) -> int | None:
    if not len(ts):
        return before
    return max(int(ts.max()), before or 0)
