"""The city: one piece, on the map, and nothing but bridges across the river."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from penstock.traffic.grid import DEFAULT_GRID, BBox, Grid, Quadrant
from penstock.traffic.simulator.geometry import crosses, heading, length_m
from penstock.traffic.simulator.network import Network, build_network, river_line, wrapped
from penstock.traffic.simulator.plan import BRIDGE_NAMES
from penstock.traffic.simulator.streets import streets_geojson
from tests.unit.traffic.simulator.city import city


def ends_of(network: Network, index: int) -> tuple[tuple[float, float], tuple[float, float]]:
    road = network.roads[index]
    return network.points[road.start], network.points[road.end]


def test_it_is_one_piece_without_dead_ends() -> None:
    assert [len(part) for part in city().parts] == [len(city().points)]
    assert min(len(roads) for roads in city().leaving()) >= 2


def test_every_street_goes_both_ways() -> None:
    ways = {(road.start, road.end): road for road in city().roads}
    assert len(ways) == len(city().roads)
    for road in city().roads:
        back = ways[road.end, road.start]
        assert (back.kind, back.length_m, back.north, back.east) == (
            road.kind,
            road.length_m,
            -road.north,
            -road.east,
        )


def test_bridges_are_the_only_ways_across_the_river() -> None:
    river = list(pairwise(river_line(DEFAULT_GRID)))
    across = [
        road
        for road in city().roads
        if any(crosses(ends_of(city(), road.index), stretch) for stretch in river)
    ]
    assert len(across) == 2 * len(BRIDGE_NAMES)
    assert {road.kind for road in across} == {"bridge"}
    assert sum(road.kind == "bridge" for road in city().roads) == len(across)


def test_without_the_bridges_there_are_two_cities() -> None:
    from penstock.traffic.simulator.graph import components

    banks = components((road.start, road.end) for road in city().roads if road.kind != "bridge")
    assert len(banks) == 2
    assert min(map(len, banks)) > len(city().points) // 5


def test_roads_know_where_they_lead() -> None:
    for road in city().roads:
        start, end = ends_of(city(), road.index)
        assert road.lat == round(start[0] * 1e6)
        assert road.lat + road.north == round(end[0] * 1e6)
        assert road.lon + road.east == round(end[1] * 1e6)
        assert road.length_m == pytest.approx(length_m(start, end))
        assert 40 < road.length_m < 1_000, "a block of a city"


@pytest.mark.parametrize(
    "grid",
    [
        DEFAULT_GRID,
        Grid(BBox(west=8.4, south=47.3, east=8.6, north=47.45), rows=3, cols=5),
        Grid(BBox(west=179.9, south=-17.1, east=-179.9, north=-16.9), rows=1, cols=2),
        Grid(BBox(west=-180.0, south=-90.0, east=180.0, north=90.0), rows=2, cols=2),
    ],
)
def test_all_of_it_is_on_any_map(grid: Grid) -> None:
    network = build_network(grid)
    quadrants = {grid.quadrant(lat, wrapped(lon)) for lat, lon in network.points}
    assert len(quadrants) == grid.rows * grid.cols
    assert len(network.parts) == 1


def test_the_city_is_the_same_for_everybody() -> None:
    again = build_network(DEFAULT_GRID)
    assert streets_geojson(again, DEFAULT_GRID) == streets_geojson(city(), DEFAULT_GRID)


def test_streets_as_geojson() -> None:
    streets = streets_geojson(city(), DEFAULT_GRID)
    assert len(json.dumps(streets)) < 500_000
    kinds = [feature["properties"]["kind"] for feature in streets["features"]]
    assert set(kinds) == {"river", "avenue", "arterial", "street", "bridge"}
    assert kinds.count("river") == 1
    bridges = {
        feature["properties"]["name"]
        for feature in streets["features"]
        if feature["properties"]["kind"] == "bridge"
    }
    assert bridges == set(BRIDGE_NAMES)
    segments = 0
    for feature in streets["features"]:
        line = feature["geometry"]["coordinates"]
        assert feature["geometry"]["type"] == "LineString"
        assert feature["properties"]["name"]
        assert len(line) >= 2
        if feature["properties"]["kind"] != "river":
            segments += len(line) - 1
        for lon, lat in line:
            assert DEFAULT_GRID.contains(lat, lon)
            assert (round(lon, 6), round(lat, 6)) == (lon, lat)
    assert segments == len(city().roads) // 2, "every street is drawn once"


@pytest.mark.parametrize("wanted", [{(0, 0)}, {(1, 1)}, {(0, 1), (1, 1)}, {(0, 0), (1, 1)}])
def test_restricted_to_quadrants(wanted: set[tuple[int, int]]) -> None:
    quadrants = {Quadrant(*each) for each in wanted}
    network = city().restricted(DEFAULT_GRID, quadrants)
    for road in network.roads:
        start, end = ends_of(network, road.index)
        for share in (0.0, 0.25, 0.5, 0.75, 1.0):
            lat, lon = (a + (b - a) * share for a, b in zip(start, end, strict=True))
            assert DEFAULT_GRID.quadrant(lat, lon) in quadrants
    lived_in = {DEFAULT_GRID.quadrant(*network.points[each]) for part in network.parts for each in part}
    assert lived_in == quadrants
    assert [road.index for road in network.roads] == list(range(len(network.roads)))


@pytest.mark.parametrize(
    ("north", "east", "expected"),
    [(1, 0, 0.0), (0, 1, 90.0), (-1, 0, 180.0), (0, -1, 270.0), (-1, -1e-9, 180.0)],
)
def test_headings_are_clockwise_from_north(north: float, east: float, expected: float) -> None:
    assert heading((0.0, 0.0), (north / 1000, east / 1000)) == expected
