"""The plan of the city: which crossings there are, and which streets lead from one to the next.

A chequerboard of lines. Downtown they are close together; some are avenues, some arterials; two avenues go
across the blocks; parks have no streets; here and there a street is missing, so that not all blocks are
alike. The plan depends on the shape of nothing but the unit square, and is the same in every process:
several simulators of one map drive in one city, whatever their seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from penstock.traffic.simulator.graph import components
from penstock.traffic.simulator.river import HALF_WIDTH, RIVER_Y, on_ground

if TYPE_CHECKING:
    from penstock.traffic.simulator.geometry import Point

CITY_SEED: Final = 416
LINES: Final = 48
"""Streets in each direction, some of which end at the edge of the map."""
OVERHANG: Final = 0.16
"""So far beyond the map the plan begins, as the banks are sheared."""
MARGIN: Final = 0.012
"""No street is nearer to the edge of the map."""
MISSING_SHARE: Final = 0.10
BRIDGE_COLUMNS: Final = (11, 17, 23, 29, 35)
BRIDGE_NAMES: Final = ("West Bridge", "Mill Bridge", "Old Bridge", "Station Bridge", "East Bridge")

DOWNTOWN: Final = (0.47, 0.63)
"""On the plan: the northern bank, within sight of the river."""
PARKS: Final = (((0.68, 0.80), (0.055, 0.045)), ((0.24, 0.20), (0.075, 0.05)), ((0.80, 0.24), (0.04, 0.055)))
"""Middle and half axes, on the plan."""

AVENUE, ARTERIAL, STREET, BRIDGE = "avenue", "arterial", "street", "bridge"

Crossing = tuple[int, int]
"""Column from the west and row from the south."""
Link = tuple[Crossing, Crossing]
UP, EAST = (0, 1), (1, 0)


@dataclass(frozen=True, slots=True)
class Line:
    """A street with a name: crossings in order, each linked to the next."""

    name: str
    kind: str
    crossings: tuple[Crossing, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    places: dict[Crossing, Point]
    """Of all crossings, on the ground of the unit square."""
    lines: tuple[Line, ...]


def draw_plan() -> Plan:
    random = Random(CITY_SEED)  # noqa: S311 - a drawing, not a secret
    columns, rows = _spread(DOWNTOWN[0]), _with_river(_spread(DOWNTOWN[1]))
    drawn = {(i, j): (x, y) for i, x in enumerate(columns) for j, y in enumerate(rows)}
    ground = {crossing: on_ground(point) for crossing, point in drawn.items()}
    inside = {crossing for crossing, point in ground.items() if _is_inside(point)}
    north = next(j for j, y in enumerate(rows) if y > RIVER_Y)
    links = {
        link: kind
        for link, kind in _links(north).items()
        if inside.issuperset(link)
        and not (kind == STREET and (_in_park(link, drawn) or random.random() < MISSING_SHARE))
    }
    _prune(links)
    lines = tuple(_lines(links, north))
    used = {crossing for line in lines for crossing in line.crossings}
    return Plan({crossing: ground[crossing] for crossing in sorted(used)}, lines)


def _spread(dense_at: float) -> list[float]:
    """Coordinates of parallel lines, closer together around one."""
    first, last = -OVERHANG, 1.0 + OVERHANG
    middles = [first + (last - first) * (n + 0.5) / LINES for n in range(LINES)]
    gaps = [1.0 - 0.62 * math.exp(-(((middle - dense_at) / 0.16) ** 2)) for middle in middles]
    scale, at, lines = (last - first) / sum(gaps), first, []
    for gap in gaps:
        lines.append(at)
        at += gap * scale
    return lines


def _with_river(rows: list[float]) -> list[float]:
    """Rows with a gap for the river: a quay on either side, and no row nearer."""
    nearest = HALF_WIDTH * 1.6
    kept = [y for y in rows if abs(y - RIVER_Y) > nearest]
    return sorted([*kept, RIVER_Y - HALF_WIDTH, RIVER_Y + HALF_WIDTH])


def _links(north: int) -> dict[Link, str]:
    """All that the board can have. `north` is the row of the northern quay."""
    links: dict[Link, str] = {}
    for i in range(LINES):
        for j in range(LINES + 2):
            if j + 1 != north:
                links[(i, j), (i, j + 1)] = _kind(i, offset=5)
            elif i in BRIDGE_COLUMNS:
                links[(i, j), (i, j + 1)] = BRIDGE
            quay = j in (north - 1, north)
            links[(i, j), (i + 1, j)] = ARTERIAL if quay else _kind(j, offset=2)
    for i, j in _diagonals(north):
        links[(i, j), (i + 1, j + 1)] = AVENUE
    return links


def _diagonals(north: int) -> list[Crossing]:
    """Where the two avenues start that go across the blocks: both end at a bridge."""
    old, east = BRIDGE_COLUMNS[2], BRIDGE_COLUMNS[3]
    southern = [(old - step, north - 1 - step) for step in range(1, 14)]
    northern = [(east + step, north + step) for step in range(13)]
    return southern + northern


def _kind(line: int, offset: int) -> str:
    if (line - offset) % 6 == 0:
        return AVENUE
    return ARTERIAL if (line - offset) % 3 == 0 else STREET


def _is_inside(point: Point) -> bool:
    return all(MARGIN <= coordinate <= 1.0 - MARGIN for coordinate in point)


def _in_park(link: Link, drawn: dict[Crossing, Point]) -> bool:
    (x0, y0), (x1, y1) = drawn[link[0]], drawn[link[1]]
    x, y = (x0 + x1) / 2.0, (y0 + y1) / 2.0
    return any(((x - px) / rx) ** 2 + ((y - py) / ry) ** 2 < 1.0 for (px, py), (rx, ry) in PARKS)


def _prune(links: dict[Link, str]) -> None:
    """Dead ends go, link by link, and then all that is not connected with the rest."""
    while True:
        ends: dict[Crossing, int] = {}
        for link in links:
            for crossing in link:
                ends[crossing] = ends.get(crossing, 0) + 1
        dead = [link for link in links if min(ends[link[0]], ends[link[1]]) == 1]
        if not dead:
            break
        for link in dead:
            del links[link]
    connected = components(links)[0]
    for link in [link for link in links if link[0] not in connected]:
        del links[link]


def _lines(links: dict[Link, str], north: int) -> Iterator[Line]:
    """Links of one kind that follow each other on a line of the board are one street."""
    families: dict[tuple[Crossing, int], list[Link]] = {}
    for link in sorted(links):
        (i, j), (k, m) = link
        step = (k - i, m - j)
        families.setdefault((step, {UP: i, EAST: j}.get(step, i - j)), []).append(link)
    for (step, number), family in sorted(families.items()):
        run, kind = [family[0][0]], links[family[0]]
        for link in family:
            if run[-1] != link[0] or kind != links[link]:
                yield Line(_name(step, number, kind, north), kind, tuple(run))
                run, kind = [link[0]], links[link]
            run.append(link[1])
        yield Line(_name(step, number, kind, north), kind, tuple(run))


def _name(step: Crossing, number: int, kind: str, north: int) -> str:
    if kind == BRIDGE:
        return BRIDGE_NAMES[BRIDGE_COLUMNS.index(number)]
    if step == UP:
        return f"{_ordinal(number + 1)} Avenue"
    if step == EAST:
        return {north - 1: "South Quay", north: "North Quay"}.get(number, f"{_ordinal(number + 1)} Street")
    return "Old Bridge Road" if number == BRIDGE_COLUMNS[2] - (north - 1) else "Station Road"


def _ordinal(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"
