"""Between the map's degrees and the ground's metres, for distances of a city."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.traffic.grid import BBox

METRES_PER_DEGREE: Final = 6_371_000.0 * math.pi / 180.0
"""Along a meridian. Along a parallel it is that times the cosine of the latitude."""
LENGTH_M_MIN: Final = 1.0
"""At a pole every distance along a parallel is nothing, and nobody divides by that."""

Point = tuple[float, float]
"""Latitude and longitude, or x and y of the unit square."""


def length_m(start: Point, end: Point) -> float:
    north, east = _metres(start, end)
    return max(math.hypot(north, east), LENGTH_M_MIN)


def heading(start: Point, end: Point) -> float:
    """Degrees clockwise from north, from 0 to less than 360, in tenths."""
    north, east = _metres(start, end)
    return round(math.degrees(math.atan2(east, north)), 1) % 360.0


def to_degrees(box: BBox, point: Point) -> Point:
    """A point of the unit square on the map: (0, 0) is its south-west corner, (1, 1) its north-east.

    To the east of the date line longitudes go on beyond 180, so that a street across it is still a line.
    """
    x, y = point
    return box.south + y * box.height, box.west + x * box.width


def crosses(first: tuple[Point, Point], second: tuple[Point, Point]) -> bool:
    """Whether two segments cross in a point that is no end of either."""
    return _sides_differ(first, second) and _sides_differ(second, first)


def _sides_differ(line: tuple[Point, Point], segment: tuple[Point, Point]) -> bool:
    return _side(line, segment[0]) * _side(line, segment[1]) < 0.0


def _side(line: tuple[Point, Point], point: Point) -> float:
    (x0, y0), (x1, y1) = line
    return (x1 - x0) * (point[1] - y0) - (y1 - y0) * (point[0] - x0)


def _metres(start: Point, end: Point) -> tuple[float, float]:
    scale = math.cos(math.radians((start[0] + end[0]) / 2.0))
    return (end[0] - start[0]) * METRES_PER_DEGREE, (end[1] - start[1]) * METRES_PER_DEGREE * scale
