"""Counting in columns against the same counting with a dictionary, and a state that survives its bytes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.pipelines.traffic.state import StateError, decode, encode
from penstock.pipelines.traffic.tally import ANCIENT, GOOD, REASONS, Positions, Shape, State, Tallied, tally
from penstock.traffic.grid import BBox, Grid

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.traffic.heat import HeatCell

WINDOW = 5_000
GRID = Grid(BBox(8.0, 47.0, 9.0, 48.0), rows=1, cols=2, cells=2)
SHAPE = Shape(WINDOW, GRID)

Row = tuple[int, int, int, int, int]
"""outcome, ts, key, cell, speed"""


def good(ts: int, key: int, cell: int = 0, speed: int = 30_000) -> Row:
    return GOOD, ts, key, cell, speed


def in_columns(rows: Sequence[Row]) -> Positions:
    outcome, *others = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    return Positions(np.array(outcome, np.int8), *(np.array(column, np.int64) for column in others))


def counted(rows: Sequence[Row], state: State | None = None, watermark: int = 0) -> Tallied:
    return tally(state or State(), in_columns(rows), watermark, SHAPE)


@dataclass
class Model:
    """What should come out, counted one by one."""

    counts: Counter[tuple[int, int]] = field(default_factory=Counter)
    speeds: Counter[tuple[int, int]] = field(default_factory=Counter)
    seen: set[tuple[int, int]] = field(default_factory=set)
    totals: Counter[str] = field(default_factory=Counter)
    published: dict[bytes, HeatCell] = field(default_factory=dict)
    closed: int = 0

    def add(self, rows: Iterable[Row], watermark: int) -> None:
        # Among equal keys of one batch the smallest cell, and then speed, is counted.
        for outcome, ts, key, cell, speed in sorted(rows, key=lambda row: row[3:]):
            start = ts // WINDOW * WINDOW
            if outcome == ANCIENT or (outcome == GOOD and start + WINDOW <= watermark):
                self.totals["late"] += 1
            elif outcome != GOOD:
                self.totals["malformed"] += 1
                self.totals[REASONS[outcome - 1]] += 1
            elif (start, key) in self.seen:
                self.totals["duplicate"] += 1
            else:
                self.seen.add((start, key))
                self.totals["counted"] += 1
                self.counts[start, cell] += 1
                self.speeds[start, cell] += speed

    def expected(self, watermark: int) -> dict[bytes, tuple[int, float | None]]:
        """All that must have been published so far, by key: zeros for windows that are closed."""
        found: dict[bytes, tuple[int, float | None]] = {}
        for (start, cell), count in self.counts.items():
            found[record_key(start, cell)] = (count, round(self.speeds[start, cell] / count / 1000, 3))
            after = start + WINDOW
            if after + WINDOW <= watermark and (after, cell) not in self.counts:
                found[record_key(after, cell)] = (0, None)
        return found


def record_key(start: int, cell: int) -> bytes:
    row, col = divmod(cell, 4)
    return b"%d.%d.%d" % (row, col, start)


rows_of_all_kinds = st.tuples(
    st.sampled_from([GOOD, GOOD, GOOD, GOOD, *range(1, ANCIENT + 1)]),
    st.integers(0, 12 * WINDOW) | st.sampled_from([WINDOW - 1, WINDOW, WINDOW + 1, 2 * WINDOW]),
    st.integers(-3, 12),
    st.integers(0, 7),
    st.integers(0, 1_000_000),
)


@given(st.lists(st.tuples(st.lists(rows_of_all_kinds, max_size=30), st.integers(0, 3 * WINDOW)), max_size=8))
def test_as_a_dictionary_would_count(batches: list[tuple[list[Row], int]]) -> None:
    state, model, watermark = State(), Model(), 0
    published: dict[bytes, HeatCell] = {}
    for rows, step in batches:
        done = tally(state, in_columns(rows), watermark, SHAPE)
        state = decode(encode(done.state, SHAPE), SHAPE)
        model.add(rows, watermark)
        for cell in done.cells:
            assert cell.end_ms - cell.start_ms == WINDOW
            assert published.get(cell.key) != cell or cell.count > 0, "a zero is published once"
            published[cell.key] = cell
        found = {key: (cell.count, cell.speed) for key, cell in published.items()}
        assert found == model.expected(watermark)
        sums = {name: getattr(done.totals, name) for name in ("counted", "late", "duplicate", "malformed")}
        assert sums == {name: model.totals[name] for name in sums}
        assert done.totals.sent == sum(sums.values())
        assert done.totals.reasons == {reason: n for reason in REASONS if (n := model.totals[reason])}
        watermark += step


@given(st.lists(rows_of_all_kinds, max_size=60), st.lists(st.integers(0, 60), max_size=5), st.randoms())
def test_any_division_into_batches_ends_the_same(rows: list[Row], cuts: list[int], chance: object) -> None:
    # Rows of one key are equal: which of several different ones is counted depends on which came first.
    rows = [(outcome, ts, key, key % 7, 1_000 * abs(key)) for outcome, ts, key, _, _ in rows]
    whole = counted(rows)
    state, published = State(), {}
    shuffled = list(rows)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]  # it is a random.Random
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    for begin, end in pairwise(edges):
        done = counted(shuffled[begin:end], state)
        state = done.state
        published |= {cell.key: cell for cell in done.cells}
    assert encode(state, SHAPE) == encode(whole.state, SHAPE)
    assert published == {cell.key: cell for cell in whole.cells}
    assert done.totals == whole.totals


def test_borders_of_windows_and_of_the_watermark() -> None:
    done = counted([good(WINDOW - 1, 1), good(WINDOW, 2), good(2 * WINDOW - 1, 3)])
    assert [(cell.start_ms, cell.end_ms, cell.count) for cell in done.cells] == [
        (0, WINDOW, 1),
        (WINDOW, 2 * WINDOW, 2),
    ]
    still_open = counted([good(0, 4)], done.state, watermark=WINDOW - 1)
    assert (still_open.totals.counted, still_open.totals.late) == (4, 0)
    closed = counted([good(WINDOW - 1, 5), good(WINDOW, 6)], still_open.state, watermark=WINDOW)
    assert (closed.totals.counted, closed.totals.late) == (5, 1)


def test_a_duplicate_is_late_once_its_window_is_closed_and_no_window_is_kept_for_ever() -> None:
    first = counted([good(100, 1)])
    again = counted([good(100, 1)], first.state, watermark=WINDOW - 1)
    assert (again.totals.duplicate, again.totals.late, again.cells) == (1, 0, [])
    after = counted([good(100, 1)], again.state, watermark=WINDOW)
    assert (after.totals.duplicate, after.totals.late) == (1, 1)
    assert [len(window.seen) for window in after.state.windows] == [0]
    gone = counted([], after.state, watermark=2 * WINDOW)
    assert [(cell.start_ms, cell.count, cell.speed) for cell in gone.cells] == [(WINDOW, 0, None)]
    assert gone.state.windows == ()


def test_the_same_key_in_another_window_is_another_position() -> None:
    done = counted([good(0, 1), good(WINDOW, 1)])
    assert (done.totals.counted, done.totals.duplicate) == (2, 0)


def test_newest_is_of_what_could_be_counted() -> None:
    assert counted([(1, 9, 1, 0, 0)]).totals.newest is None
    done = counted([good(7, 1), (3, 99_999, 2, 0, 0)])
    assert done.totals.newest == 7
    assert counted([good(5, 3)], done.state).totals.newest == 7
    assert (done.totals.watermark, counted([], watermark=12).totals.watermark) == (None, 12)


def test_a_state_of_another_kind_is_refused() -> None:
    data = encode(counted([good(1, 1, cell=5)]).state, SHAPE)
    with pytest.raises(StateError, match=r"for windows of 5000 ms .* and not for windows of 1000 ms"):
        decode(data, Shape(1_000, GRID))
    with pytest.raises(StateError, match="cut off"):
        decode(data[:-1], SHAPE)
    with pytest.raises(StateError, match="1 bytes behind the end"):
        decode(data + b"x", SHAPE)
    with pytest.raises(StateError, match="damaged"):
        decode(data[:4] + b"\xff" * 8, SHAPE)
    with pytest.raises(StateError, match="version 2"):
        decode(data.replace(b'"version":1', b'"version":2'), SHAPE)
