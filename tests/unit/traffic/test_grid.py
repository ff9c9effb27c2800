"""The map: every position in exactly one cell and quadrant, at edges, poles and the date line as well."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from penstock.client.errors import InvalidMessageError, TopicClusterDoesNotExistError
from penstock.traffic.grid import CELL_DEGREES_MIN, DEFAULT_GRID, BBox, Cell, Grid, Quadrant, east_of
from penstock.traffic.topics import parse_quadrant_topic

WORLD = BBox(-180, -90, 180, 90)
FIJI = BBox(west=177.0, south=-19.5, east=-178.0, north=-16.0)

latitudes = st.floats(-90, 90)
longitudes = st.floats(-180, 180)


@st.composite
def boxes(draw: st.DrawFn) -> BBox:
    south, north = sorted((draw(latitudes), draw(latitudes)))
    assume(south < north)
    west, east = draw(longitudes), draw(longitudes)
    assume(west != east and (west, east) != (180, -180))
    return BBox(west, south, east, north)


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    box = draw(boxes() | st.sampled_from([WORLD, FIJI, DEFAULT_GRID.bbox, BBox(170, 0, 180, 90)]))
    rows, cols, cells = draw(st.integers(1, 9)), draw(st.integers(1, 9)), draw(st.integers(1, 30))
    assume(min(box.height / (rows * cells), box.width / (cols * cells)) >= CELL_DEGREES_MIN)
    return Grid(box, rows, cols, cells)


@st.composite
def placed(draw: st.DrawFn) -> tuple[Grid, float, float]:
    """A map and a place on it, often at an edge."""
    grid = draw(grids())
    box = grid.bbox
    share = st.floats(0, 1) | st.sampled_from([0.0, 0.5, 1.0, math.nextafter(1, 0), math.nextafter(0, 1)])
    lat = min(box.north, box.south + draw(share) * box.height)
    lon = box.west + draw(share) * box.width
    lon = lon - 360 if lon > 180 else lon
    assume(east_of(box.west, lon) <= box.width)
    return grid, lat, lon


@given(placed())
def test_every_position_is_in_one_cell_of_one_quadrant(place: tuple[Grid, float, float]) -> None:
    grid, lat, lon = place
    cell, quadrant = grid.cell(lat, lon), grid.quadrant(lat, lon)
    assert 0 <= cell.row < grid.rows * grid.cells
    assert 0 <= cell.col < grid.cols * grid.cells
    assert quadrant == Quadrant(cell.row // grid.cells, cell.col // grid.cells) == grid.quadrant_of(cell)
    assert grid.topic(lat, lon) == f"traffic.r{quadrant.row}.c{quadrant.col}"
    assert grid.topic(lat, lon) in grid.topics()
    assert grid.contains(lat, lon)


@given(placed())
def test_the_arithmetic_is_the_one_that_others_repeat(place: tuple[Grid, float, float]) -> None:
    grid, lat, lon = place
    box, rows, cols = grid.bbox, grid.rows * grid.cells, grid.cols * grid.cells
    east = (-180.0 if lon == 180 else lon) - box.west
    east = east + 360 if east < 0 else east
    row = min(math.floor((lat - box.south) / (box.north - box.south) * rows), rows - 1)
    col = min(math.floor(east / box.width * cols), cols - 1)
    assert grid.cell(lat, lon) == Cell(row, col)


@given(placed(), st.floats(0, 1))
def test_cells_follow_each_other_to_the_north(place: tuple[Grid, float, float], share: float) -> None:
    grid, lat, lon = place
    further = min(grid.bbox.north, lat + share * (grid.bbox.north - lat))
    assert grid.cell(further, lon).row >= grid.cell(lat, lon).row


@given(grids(), st.data())
def test_the_centre_of_a_cell_is_in_the_cell(grid: Grid, data: st.DataObject) -> None:
    row = data.draw(st.integers(0, grid.rows * grid.cells - 1))
    col = data.draw(st.integers(0, grid.cols * grid.cells - 1))
    lat, lon = grid.cell_center(Cell(row, col))
    assert grid.cell(lat, lon) == Cell(row, col)


@given(grids())
def test_topics_are_all_different(grid: Grid) -> None:
    names = grid.topics()
    assert len(set(names)) == len(names) == grid.rows * grid.cols
    for name in names:
        row, col = parse_quadrant_topic(name) or (-1, -1)
        assert grid.quadrant_of_topic(name) == Quadrant(row, col)
    assert grid.quadrant_of_topic(f"traffic.r{grid.rows}.c0") is None
    assert grid.quadrant_of_topic(f"traffic.r0.c{grid.cols}") is None
    assert grid.quadrant_of_topic("traffic.heatmap") is None


@given(grids())
def test_json_and_back(grid: Grid) -> None:
    assert Grid.from_json(grid.to_json()) == grid


@given(grids(), latitudes, longitudes)
def test_inside_or_outside(grid: Grid, lat: float, lon: float) -> None:
    """Also of boxes across the date line."""
    box = grid.bbox
    turned = box.west > box.east
    inside = (lon >= box.west or lon <= box.east) if turned else box.west <= lon <= box.east
    # A meridian of two names.
    inside = inside or (abs(lon) == 180 and (abs(box.west) == 180 or abs(box.east) == 180 or turned))
    # Next to the east edge a difference of doubles is rounded, also where the two have different signs.
    is_on_edge = lon == box.east or abs(lon) == abs(box.east) == 180
    assume(is_on_edge or abs(math.remainder(lon - box.east, 360)) > 1e-12)
    assert grid.contains(lat, lon) == (inside and box.south <= lat <= box.north)


def test_edges_belong_to_the_north_and_east() -> None:
    grid = Grid(BBox(0, 0, 8, 4), rows=2, cols=2, cells=4)
    assert grid.quadrant(0, 0) == Quadrant(0, 0)
    assert grid.quadrant(math.nextafter(2, 0), math.nextafter(4, 0)) == Quadrant(0, 0)
    assert grid.quadrant(2, 4) == Quadrant(1, 1)
    assert grid.quadrant(2, 0) == Quadrant(1, 0)
    assert grid.quadrant(0, 4) == Quadrant(0, 1)
    assert grid.cell(0.5, 1) == Cell(1, 1)
    assert grid.cell(math.nextafter(0.5, 0), math.nextafter(1, 0)) == Cell(0, 0)
    # The outer edges have nothing behind them.
    assert grid.quadrant(4, 8) == Quadrant(1, 1)
    assert grid.cell(4, 8) == Cell(7, 7)


@pytest.mark.parametrize(
    ("lat", "lon"),
    [
        (math.nextafter(0, -1), 4),
        (math.nextafter(4, 5), 4),
        (2, -1e-9),
        (2, 8.000001),
        (math.nan, 4),
        (2, math.nan),
        (math.inf, 4),
        (2, -math.inf),
        (10**400, 4),
        (2, -(10**400)),
        (2, 4 + 360),
        (2, 4 - 360),
    ],
)
def test_outside(lat: float, lon: float) -> None:
    grid = Grid(BBox(0, 0, 8, 4), rows=2, cols=2)
    for ask in (grid.cell, grid.quadrant, grid.topic):
        with pytest.raises(TopicClusterDoesNotExistError, match="outside the map"):
            ask(lat, lon)
    assert not grid.contains(lat, lon)


def test_a_map_across_the_date_line() -> None:
    grid = Grid(FIJI, rows=1, cols=5, cells=2)
    assert [grid.quadrant(-18, lon).col for lon in (177, 178.5, 179.9, 180, -180, -179.5, -178.5, -178)] == [
        0,
        1,
        2,
        3,
        3,
        3,
        4,
        4,
    ]
    assert grid.cell_center(Cell(0, 6)) == pytest.approx((-18.625, -179.75))
    assert not grid.contains(-18, 176.9)
    assert not grid.contains(-18, -177.9)
    assert not grid.contains(-18, 0)


@pytest.mark.parametrize("west", [170.0, 170.1, 3.3, -180.0, -179.9])
def test_the_meridian_of_two_names_is_one_place(west: float) -> None:
    for box in (BBox(west, 0, 180, 1), BBox(170.0, 0, -170.0, 1), WORLD):
        grid = Grid(box, rows=1, cols=7, cells=5)
        assert grid.cell(0.5, 180) == grid.cell(0.5, -180)
    if west > -180:
        east = Grid(BBox(west, 0, -180, 1), rows=1, cols=7, cells=5)
        assert east.bbox.width == BBox(west, 0, 180, 1).width
        assert east.cell(0.5, -180).col == 34


def test_the_whole_world() -> None:
    grid = Grid(WORLD, rows=2, cols=4, cells=90)
    assert WORLD.width == 360
    assert grid.quadrant(-90, -180) == Quadrant(0, 0)
    assert grid.quadrant(0, 0) == Quadrant(1, 2)
    assert grid.quadrant(-1e-9, -1e-9) == Quadrant(0, 1)
    assert grid.quadrant(90, math.nextafter(180, 0)) == Quadrant(1, 3)


@given(longitudes)
@example(180.0)
@example(-180.0)
def test_poles(lon: float) -> None:
    grid = Grid(BBox(-180, 60, 180, 90), rows=3, cols=3)
    assert grid.quadrant(90, lon).row == 2
    south = Grid(BBox(-180, -90, 180, -60), rows=3, cols=3)
    assert south.quadrant(-90, lon).row == 0


@pytest.mark.parametrize(
    ("west", "south", "east", "north"),
    [
        (0, 5, 10, 5),
        (0, 6, 10, 5),
        (7, 0, 7, 5),
        (180, 0, -180, 5),
        (-181, 0, 10, 5),
        (0, -91, 10, 5),
        (0, 0, 181, 5),
        (0, 0, 10, 91),
        (math.nan, 0, 10, 5),
        (0, 0, math.inf, 5),
        (0, 10**400, 10, 5),
    ],
)
def test_boxes_that_are_none(west: float, south: float, east: float, north: float) -> None:
    with pytest.raises(ValueError):
        BBox(west, south, east, north)


@pytest.mark.parametrize("wrong", [True, "1", None, [1], b"1", 1j])
def test_boxes_of_wrong_types(wrong: Any) -> None:
    for place in range(4):
        bounds = [0, 0, 10, 10]
        bounds[place] = wrong
        with pytest.raises(TypeError):
            BBox(*bounds)


def test_a_box_is_of_floats() -> None:
    assert repr(BBox(0, 1, 2, 3)) == "BBox(west=0.0, south=1.0, east=2.0, north=3.0)"


@pytest.mark.parametrize(
    "wrong", [{"rows": 0}, {"cols": -1}, {"cells": 0}, {"cells": 1_001}, {"rows": 101, "cols": 100}]
)
def test_grids_that_are_none(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError):
        Grid(WORLD, **{"rows": 1, "cols": 1, **wrong})


@pytest.mark.parametrize("wrong", [True, 1.0, "1", None])
def test_grids_of_wrong_types(wrong: Any) -> None:
    for name in ("rows", "cols", "cells"):
        with pytest.raises(TypeError):
            Grid(WORLD, **{"rows": 1, "cols": 1, name: wrong})


def test_cells_that_doubles_cannot_tell_apart() -> None:
    with pytest.raises(ValueError, match="degrees"):
        Grid(BBox(10, 10, 10.0001, 11), rows=1, cols=100, cells=1_000)


@pytest.mark.parametrize("cell", [Cell(-1, 0), Cell(0, -1), Cell(48, 0), Cell(0, 48)])
def test_cells_that_the_map_does_not_have(cell: Cell) -> None:
    for ask in (DEFAULT_GRID.cell_center, DEFAULT_GRID.quadrant_of):
        with pytest.raises(TopicClusterDoesNotExistError):
            ask(cell)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"7",
        b"{}",
        b'{"bbox": [1, 2, 3], "rows": 1, "cols": 1, "cells": 1}',
        b'{"bbox": "abcd", "rows": 1, "cols": 1, "cells": 1}',
        b'{"bbox": [0, 0, 1, 1], "rows": true, "cols": 1, "cells": 1}',
        b'{"bbox": [0, 0, 1, 1], "rows": 1, "cols": 1}',
        b'{"bbox": [0, 1, 1, 0], "rows": 1, "cols": 1, "cells": 1}',
        b'{"bbox": 7, "rows": 1, "cols": 1, "cells": 1}',
    ],
)
def test_json_that_is_no_map(data: bytes) -> None:
    with pytest.raises(InvalidMessageError, match="not a map"):
        Grid.from_json(data)


def test_the_default_is_the_city_of_the_mission() -> None:
    assert DEFAULT_GRID.topics() == ["traffic.r0.c0", "traffic.r0.c1", "traffic.r1.c0", "traffic.r1.c1"]
    assert DEFAULT_GRID.cells == 24
