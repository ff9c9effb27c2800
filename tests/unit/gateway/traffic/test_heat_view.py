"""The JSON of the heat map: places of cells, boxes, and what is written once for all."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from penstock.gateway.traffic.boxes import is_in, parse_box
from penstock.gateway.traffic.heat_map import HeatMap
from penstock.gateway.traffic.heat_view import HeatView
from penstock.traffic.grid import DEFAULT_GRID, BBox, Cell, Grid
from tests.unit.gateway.traffic.records import Pair, cell, totals

FIJI = Grid(BBox(west=177.0, south=-19.0, east=-178.0, north=-16.0), rows=1, cols=1, cells=10)
"""Across the date line; a column is half a degree."""


def viewed(grid: Grid, *pairs: Pair) -> tuple[HeatMap, HeatView]:
    heat_map = HeatMap(10_000)
    for key, value in pairs:
        heat_map.apply(key, value, 10**12)
    return heat_map, HeatView(heat_map, grid)


def events(written: bytes) -> list[dict[str, Any]]:
    return [orjson.loads(each.removeprefix(b"data: ")) for each in written.split(b"\n\n") if each]


def columns(view: HeatView, box: str) -> list[int]:
    return sorted(each["col"] for each in orjson.loads(view.snapshot(parse_box(box)))["cells"])


def test_the_newest_window() -> None:
    _, view = viewed(
        DEFAULT_GRID, cell(0, 0, 7, 9), cell(3, 7, 8, 12, 31.5), cell(3, 8, 8, 0), totals(21, newest=44_000)
    )
    lat, lon = DEFAULT_GRID.cell_center(Cell(3, 7))
    answer = orjson.loads(view.snapshot(None))
    assert answer["window"] == {"start": 40_000, "end": 45_000}
    assert answer["cells"][0] == {
        "row": 3, "col": 7, "lat": lat, "lon": lon, "count": 12, "speed": 31.5,
    }  # fmt: skip
    assert (answer["cells"][1]["count"], answer["cells"][1]["speed"]) == (0, None)
    assert answer["newest"] == answer["totals"]["newest"] == 44_000
    assert answer["totals"]["counted"] == 21


def test_nothing_yet() -> None:
    _, view = viewed(DEFAULT_GRID)
    assert orjson.loads(view.snapshot(None)) == {"window": None, "cells": [], "newest": None, "totals": None}
    assert view.recent() == b""


def test_boxes_also_across_the_date_line() -> None:
    _, view = viewed(FIJI, *(cell(0, col, 1, 1) for col in range(10)), totals(10))
    assert columns(view, "177,-19,-178,-16") == list(range(10))
    assert columns(view, "177.5,-19,178.5,-16") == [1, 2]
    assert columns(view, "179.5,-19,-179.5,-16") == [5, 6]
    assert columns(view, "-180,-90,180,90") == list(range(10))
    assert columns(view, "0,-90,180,90") == [0, 1, 2, 3, 4, 5]
    assert columns(view, "180,-90,-90,90") == [6, 7, 8, 9]
    assert columns(view, "-180,-90,0,90") == [6, 7, 8, 9]
    assert columns(view, "177,10,178,20") == []
    # The edges belong to it.
    assert columns(view, "178.25,-18.85,178.75,-18") == [2, 3]


@pytest.mark.parametrize(
    "text",
    [
        "1,2,3", "1,2,3,4,5", "a,b,c,d", "1,2,,4", "nan,0,1,1", "0,0,inf,1", "0,0,1e400,1", "1_0,0,20,1",
        "0,5,1,5", "0,6,1,5", "0,0,0,1", "-181,0,0,1", "0,-91,1,0", "180,0,-180,1", "٣,0,4,1", "0x1,0,4,1",
    ],
)  # fmt: skip
def test_what_is_no_box(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        parse_box(text)


def test_a_box() -> None:
    assert parse_box(" -1.5, -2 ,+3e0,.5") == BBox(-1.5, -2, 3, 0.5)
    assert is_in(parse_box("-180,-90,180,90"), 90.0, 180.0)


def test_the_two_newest_windows_for_who_begins() -> None:
    heat_map, view = viewed(DEFAULT_GRID, *(cell(0, 0, window, window) for window in range(1, 6)), totals(15))
    told = events(view.recent())
    assert [each["window"]["start"] for each in told] == [20_000, 25_000]
    assert [each["cells"][0]["count"] for each in told] == [4, 5]
    assert view.changes(heat_map.number) == b""


def test_changes_are_written_once() -> None:
    heat_map, view = viewed(DEFAULT_GRID, cell(0, 0, 1, 1), totals(1), cell(0, 1, 1, 2), totals(3))
    newest = view.changes(1)
    assert view.changes(1) is newest
    assert [each["cells"][0]["col"] for each in events(newest)] == [1]
    assert [len(each["cells"]) for each in events(view.changes(0))] == [2]
    for key, value in (cell(0, 2, 1, 1), totals(4)):
        heat_map.apply(key, value, 10**12)
    assert [each["cells"][0]["col"] for each in events(view.changes(2))] == [2]
    assert view.changes(1) is not newest


def test_cells_that_are_not_on_the_map() -> None:
    _, view = viewed(DEFAULT_GRID, cell(47, 47, 1, 1), cell(48, 0, 1, 1), cell(0, 10**18, 1, 1), totals(3))
    assert [each["row"] for each in orjson.loads(view.snapshot(None))["cells"]] == [47]


def test_another_map_is_told_to_everybody() -> None:
    heat_map, view = viewed(DEFAULT_GRID, cell(9, 9, 1, 1), cell(40, 9, 1, 1), totals(2))
    number = heat_map.number
    view.redraw(DEFAULT_GRID)
    assert heat_map.number == number
    view.redraw(FIJI)
    (told,) = events(view.changes(number))
    assert [(each["lat"], each["lon"]) for each in told["cells"]] == [FIJI.cell_center(Cell(9, 9))]
    view.redraw(DEFAULT_GRID)
    assert len(orjson.loads(view.snapshot(None))["cells"]) == 2
