"""Positions that should not be counted, in the numbers that were asked for."""

from __future__ import annotations

from random import Random

import pytest

from penstock.client.errors import InvalidPositionError
from penstock.traffic.grid import DEFAULT_GRID, BBox, Grid
from penstock.traffic.position import FUTURE_MS_MAX, Position
from penstock.traffic.simulator.broken import broken_kinds, broken_record
from penstock.traffic.simulator.faults import LATE_AFTER_MS, REPEAT_AFTER_MS, REPEAT_MS_MAX, Faults

START_MS = 1_700_000_000_000


def positions(ts: int, count: int = 100) -> list[Position]:
    return [Position(f"car-{number}", 49.25, -123.1, 50.0, 90.0, ts) for number in range(count)]


def test_without_shares_there_are_none() -> None:
    faults = Faults(DEFAULT_GRID, Random(0))
    for ts in range(START_MS, START_MS + 40_000, 1_000):
        good = positions(ts)
        assert faults.duplicates(good, ts) == faults.late(good, ts) == faults.broken(good) == []
        faults.written(good)


def test_duplicates_are_the_same_positions_at_once_and_seconds_later() -> None:
    faults = Faults(DEFAULT_GRID, Random(0), duplicates=0.1)
    at_once = later = 0
    written: set[Position] = set()
    for ts in range(START_MS, START_MS + 60_000, 500):
        good = positions(ts)
        for duplicate in faults.duplicates(good, ts):
            if duplicate.ts == ts:
                at_once += 1
                assert duplicate in good
            else:
                later += 1
                assert duplicate in written
                assert REPEAT_AFTER_MS <= ts - duplicate.ts <= REPEAT_MS_MAX
        faults.written(good)
        written.update(good)
    assert at_once == 600
    assert later == 600 - REPEAT_AFTER_MS // 500 * 5, "the last ones are still to come"


def test_a_repetition_that_would_be_late_is_not_sent() -> None:
    faults = Faults(DEFAULT_GRID, Random(0), duplicates=0.5)
    faults.written(positions(START_MS))
    assert faults.duplicates([], START_MS + REPEAT_MS_MAX + 1) == []
    faults.written(positions(START_MS))
    assert len(faults.duplicates([], START_MS + REPEAT_MS_MAX)) == 25


def test_nothing_that_was_not_acknowledged_is_repeated() -> None:
    faults = Faults(DEFAULT_GRID, Random(0), duplicates=0.5)
    faults.duplicates(positions(START_MS), START_MS)
    assert faults.duplicates([], START_MS + REPEAT_AFTER_MS) == []


def test_late_ones_begin_when_there_is_a_watermark_and_are_far_behind_it() -> None:
    faults = Faults(DEFAULT_GRID, Random(0), late=0.05)
    found = []
    for ts in range(START_MS, START_MS + 60_000, 1_000):
        late = faults.late(positions(ts), ts)
        assert not late or ts >= START_MS + LATE_AFTER_MS
        found += [(ts - each.ts, each) for each in late]
    assert len(found) == 40 * 5
    ages = [age for age, _ in found]
    assert min(ages) >= 60_000
    assert sum(age > 86_400_000 for age in ages) > 50
    assert sum(age < 86_400_000 for age in ages) > 50


def test_broken_ones_of_every_kind_in_turn() -> None:
    faults = Faults(DEFAULT_GRID, Random(0), broken=0.01)
    kinds = len(broken_kinds(DEFAULT_GRID))
    records = [record for _ in range(kinds) for record in faults.broken(positions(START_MS))]
    assert len(records) == kinds
    assert len({(topic, value) for topic, _, value in records}) == kinds


@pytest.mark.parametrize("kind", broken_kinds(DEFAULT_GRID))
def test_a_broken_record_is_refused_by_whoever_checks(kind: str) -> None:
    position = positions(START_MS, 1)[0]
    topic, key, value = broken_record(kind, position, DEFAULT_GRID)
    assert topic in DEFAULT_GRID.topics()
    assert key == position.car
    try:
        found = Position.from_json(value or b"")
    except InvalidPositionError:
        return
    outside = not DEFAULT_GRID.contains(found.lat, found.lon)
    ahead = found.ts > START_MS + FUTURE_MS_MAX
    elsewhere = not outside and DEFAULT_GRID.topic(found.lat, found.lon) != topic
    assert [outside, ahead, elsewhere] == [kind == "outside", kind == "ts-future", kind == "elsewhere"]
    assert outside or ahead or elsewhere


def test_on_a_map_of_one_quadrant_there_is_no_elsewhere() -> None:
    grid = Grid(BBox(west=0.0, south=-90.0, east=10.0, north=90.0), rows=1, cols=1)
    kinds = broken_kinds(grid)
    assert "elsewhere" not in kinds
    _, _, value = broken_record("outside", Position("7", 10.0, 5.0, ts=1), grid)
    with pytest.raises(InvalidPositionError):
        Position.from_json(value or b"")
