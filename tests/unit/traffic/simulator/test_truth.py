"""The sums that others are measured against."""

from __future__ import annotations

from random import Random

import pytest

from penstock.traffic.grid import DEFAULT_GRID
from penstock.traffic.position import Position
from penstock.traffic.simulator.truth import Truth


def positions(count: int, seed: int = 0) -> list[Position]:
    random = Random(seed)
    return [
        Position(
            f"car-{number}",
            random.uniform(49.205, 49.305),
            random.uniform(-123.16, -123.01),
            ts=random.randrange(1_700_000_000_000, 1_700_000_060_000),
        )
        for number in range(count)
    ]


def test_sent_is_the_sum_of_its_kinds_and_unknown_is_not_part_of_it() -> None:
    truth = Truth(DEFAULT_GRID)
    truth.add_good(positions(10))
    truth.duplicates, truth.late, truth.broken, truth.unknown = 4, 3, 2, 100
    assert truth.counts() == {
        "sent": 19,
        "good": 10,
        "duplicates": 4,
        "late": 3,
        "broken": 2,
        "unknown": 100,
    }


@pytest.mark.parametrize("window_ms", [1_000, 5_000, 7_001])
def test_cells_are_those_of_the_grid_and_windows_those_of_the_timestamp(window_ms: int) -> None:
    good = positions(500)
    truth = Truth(DEFAULT_GRID, window_ms=window_ms)
    truth.add_good(good[:200])
    truth.add_good(good[200:])
    expected: dict[str, int] = {}
    for position in good:
        cell = DEFAULT_GRID.cell(position.lat, position.lon)
        key = f"{cell.row}.{cell.col}.{position.ts // window_ms * window_ms}"
        expected[key] = expected.get(key, 0) + 1
    found = truth.as_dict()
    assert found["cells"] == expected
    assert found["window_ms"] == window_ms
    assert sum(found["cells"].values()) == found["good"] == 500


def test_without_cells_it_only_counts() -> None:
    truth = Truth(DEFAULT_GRID, with_cells=False)
    truth.add_good(positions(10))
    assert truth.as_dict()["cells"] == {}
    assert truth.sent == 10


def test_a_window_has_a_length() -> None:
    with pytest.raises(ValueError, match="at least one millisecond"):
        Truth(DEFAULT_GRID, window_ms=0)
