"""The street network: crossings, and the roads between them, one for each direction.

What a car needs while it drives along a road is computed once, here: where the road starts, how far it goes
in millionths of a degree, its heading. Such millionths, as whole numbers divided by a million, are the
shortest decimals that a message can have.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from penstock.traffic.simulator import river
from penstock.traffic.simulator.geometry import Point, heading, length_m, to_degrees
from penstock.traffic.simulator.graph import components
from penstock.traffic.simulator.plan import ARTERIAL, AVENUE, BRIDGE, STREET, Line, Plan, draw_plan

if TYPE_CHECKING:
    from penstock.traffic.grid import Grid, Quadrant

MICRO: Final = 1_000_000.0
FREE_KMH: Final = {AVENUE: 70.0, ARTERIAL: 60.0, STREET: 45.0, BRIDGE: 60.0}
LANES: Final = {AVENUE: 3, ARTERIAL: 2, STREET: 1, BRIDGE: 4}
"""In each direction."""
PART_CROSSINGS_MIN: Final = 12
"""Fewer crossings that hang together are too few to live in."""


@dataclass(frozen=True, slots=True, eq=False)
class Road:
    """One direction of a street between two crossings."""

    index: int
    start: int
    end: int
    kind: str
    length_m: float
    free_kmh: float
    heading: float
    lat: float
    lon: float
    """Of the start, in millionths of a degree. Longitudes may go on beyond 180."""
    north: float
    east: float
    """How far it goes, in millionths of a degree."""

    @property
    def free_s(self) -> float:
        return self.length_m / self.free_kmh * 3.6


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    points: tuple[Point, ...]
    """Latitude and longitude of each crossing."""
    roads: tuple[Road, ...]
    parts: tuple[tuple[int, ...], ...]
    """Crossings that hang together; all of them, unless cars are restricted to some quadrants."""
    plan: Plan
    numbers: dict[tuple[int, int], int]
    """Of the plan's crossings."""

    def leaving(self) -> list[list[Road]]:
        """The roads that start at each crossing."""
        leaving: list[list[Road]] = [[] for _ in self.points]
        for road in self.roads:
            leaving[road.start].append(road)
        return leaving

    def restricted(self, grid: Grid, quadrants: Iterable[Quadrant]) -> Network:
        """The same crossings, and only the roads that never leave these quadrants."""
        wanted = frozenset(quadrants)
        home = [grid.quadrant(lat, wrapped(lon)) for lat, lon in self.points]

        def stays(road: Road) -> bool:
            start, end = home[road.start], home[road.end]
            # From a quadrant to one beside it a straight road touches no third. Diagonally it does.
            beside = abs(start.row - end.row) + abs(start.col - end.col) <= 1
            return start in wanted and end in wanted and beside

        kept = [road for road in self.roads if stays(road)]
        parts = [part for part in _parts(kept) if len(part) >= PART_CROSSINGS_MIN]
        lived_in = {crossing for part in parts for crossing in part}
        roads = _numbered([road for road in kept if road.start in lived_in])
        return Network(self.points, roads, tuple(parts), self.plan, self.numbers)


def build_network(grid: Grid) -> Network:
    """The city on this map, the same for all who ask."""
    plan = draw_plan()
    numbers = {crossing: number for number, crossing in enumerate(plan.places)}
    points = tuple(rounded(to_degrees(grid.bbox, point)) for point in plan.places.values())
    roads: list[Road] = []
    for line in plan.lines:
        for before, after in zip(line.crossings, line.crossings[1:], strict=False):
            for start, end in ((before, after), (after, before)):
                roads.append(_road(len(roads), line.kind, points, numbers[start], numbers[end]))
    return Network(points, tuple(roads), tuple(_parts(roads)), plan, numbers)


def river_line(grid: Grid) -> list[Point]:
    return [rounded(to_degrees(grid.bbox, point)) for point in river.course()]


def street_line(network: Network, line: Line) -> list[Point]:
    return [network.points[network.numbers[crossing]] for crossing in line.crossings]


def rounded(point: Point) -> Point:
    return round(point[0], 6), round(point[1], 6)


def wrapped(lon: float) -> float:
    return lon - 360.0 if lon >= 180.0 else lon


def _road(index: int, kind: str, points: tuple[Point, ...], start: int, end: int) -> Road:
    first, last = points[start], points[end]
    lat, lon = _micro(first[0]), _micro(first[1])
    return Road(
        index=index,
        start=start,
        end=end,
        kind=kind,
        length_m=length_m(first, last),
        free_kmh=FREE_KMH[kind],
        heading=heading(first, last),
        lat=lat,
        lon=lon,
        north=_micro(last[0]) - lat,
        east=_micro(last[1]) - lon,
    )


def _micro(degrees: float) -> float:
    return float(round(degrees * MICRO))


def _numbered(roads: list[Road]) -> tuple[Road, ...]:
    return tuple(replace(road, index=index) for index, road in enumerate(roads))


def _parts(roads: Iterable[Road]) -> list[tuple[int, ...]]:
    return [tuple(sorted(part)) for part in components((road.start, road.end) for road in roads)]
