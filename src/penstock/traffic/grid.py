"""The map: a box of coordinates, cut into equal quadrants, each of them cut into equal heat cells.

A position is in exactly one cell, and a cell in exactly one quadrant. South and west edges belong to a cell,
the north and east edges of the whole map to its last row and column. The arithmetic is

    inside: south <= lat <= north, -180 <= lon <= 180, east_of(west, lon) <= width
    row = floor((lat - south) / (north - south) * (rows * cells)), at most the last
    col = floor(east_of(west, lon) / width * (cols * cells)), at most the last

in this order, so that whoever does the same with the same doubles (the heat map job, in columns) gets the
same cell for every position, also next to an edge. `east_of(west, lon)` is how many degrees one goes from
`west` to the east: `lon - west`, and 360 more if that is negative. The meridian of 180° has two names: 180 is
taken as -180 first, also for the box's own east, where it means a full turn if its west is that meridian as
well. On a map of the whole world that meridian is the west edge, and so in the first column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson

from penstock.client.errors import InvalidMessageError, TopicClusterDoesNotExistError
from penstock.traffic.topics import SHARED_PLANS, parse_quadrant_topic, quadrant_plan, quadrant_topic

if TYPE_CHECKING:
    from penstock.client.topic_plan import TopicPlan

QUADRANTS_MAX: Final = 10_000
CELLS_MAX: Final = 1_000
CELL_DEGREES_MIN: Final = 1e-7
"""About a centimetre; in smaller cells the rounding of doubles would show."""


@dataclass(frozen=True, slots=True)
class BBox:
    """Degrees. A `west` greater than `east` is a box across the date line.

    >>> BBox(west=177.0, south=-19.5, east=-178.0, north=-16.0).width
    5.0
    """

    west: float
    south: float
    east: float
    north: float

    def __post_init__(self) -> None:
        for name, limit in (("west", 180), ("south", 90), ("east", 180), ("north", 90)):
            object.__setattr__(self, name, _degrees(name, getattr(self, name), limit))
        if not self.south < self.north:
            raise ValueError(f"south {self.south} is not south of north {self.north}")
        if self.west == self.east or (self.west, self.east) == (180.0, -180.0):
            raise ValueError(f"west {self.west} and east {self.east} leave nothing between them")

    @property
    def height(self) -> float:
        """From south to north."""
        return self.north - self.south

    @property
    def width(self) -> float:
        """From west to east."""
        return east_of(self.west, self.east) or 360.0


@dataclass(frozen=True, slots=True, order=True)
class Quadrant:
    """Row 0 is the southernmost, column 0 the westernmost."""

    row: int
    col: int


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """A heat cell, counted over the whole map as quadrants are."""

    row: int
    col: int


@dataclass(frozen=True)
class Grid:
    """`rows` x `cols` quadrants of a box, with `cells` x `cells` heat cells in each.

    >>> grid = Grid(BBox(west=8.0, south=47.0, east=9.0, north=48.0), rows=2, cols=2, cells=10)
    >>> grid.topic(47.6, 8.1)
    'traffic.r1.c0'
    >>> grid.cell(47.5, 8.0)
    Cell(row=10, col=0)
    >>> grid.quadrant(47.6, 9.1)
    Traceback (most recent call last):
    penstock.client.errors.TopicClusterDoesNotExistError: latitude 47.6, longitude 9.1 is outside the map
    """

    bbox: BBox
    rows: int
    cols: int
    cells: int = 24
    _topics: tuple[tuple[str, ...], ...] = field(init=False, repr=False, compare=False)
    _scale: tuple[float, float, float, float, float, int, int] = field(init=False, repr=False, compare=False)
    """What every position is measured with: south, north, height, west, width, rows and columns of cells."""

    def __post_init__(self) -> None:
        for name in ("rows", "cols", "cells"):
            _require_count(name, getattr(self, name))
        if self.rows * self.cols > QUADRANTS_MAX or self.cells > CELLS_MAX:
            raise ValueError(
                f"a map has at most {QUADRANTS_MAX} quadrants of {CELLS_MAX} x {CELLS_MAX} cells"
            )
        box, rows, cols = self.bbox, self.rows * self.cells, self.cols * self.cells
        if min(box.height / rows, box.width / cols) < CELL_DEGREES_MIN:
            raise ValueError(f"cells of less than {CELL_DEGREES_MIN:g} degrees")
        names = tuple(tuple(quadrant_topic(row, col) for col in range(self.cols)) for row in range(self.rows))
        object.__setattr__(self, "_topics", names)
        object.__setattr__(
            self, "_scale", (box.south, box.north, box.height, box.west, box.width, rows, cols)
        )

    def cell(self, lat: float, lon: float) -> Cell:
        """Where heat at this place is counted; TopicClusterDoesNotExistError outside the map."""
        return Cell(*self.cell_index(lat, lon))

    def cell_index(self, lat: float, lon: float) -> tuple[int, int]:
        """`cell` as a plain pair, for those who ask very often."""
        south, north, height, west, width, rows, cols = self._scale
        # NaN fails every comparison, so it is outside.
        if south <= lat <= north and -180.0 <= lon <= 180.0:
            east = (-180.0 if lon == 180.0 else lon) - west
            if east < 0.0:
                east += 360.0
            if east <= width:
                row, col = int((lat - south) / height * rows), int(east / width * cols)
                return row if row < rows else rows - 1, col if col < cols else cols - 1
        raise TopicClusterDoesNotExistError(f"latitude {lat}, longitude {lon} is outside the map")

    def quadrant(self, lat: float, lon: float) -> Quadrant:
        """TopicClusterDoesNotExistError outside the map."""
        row, col = self.cell_index(lat, lon)
        return Quadrant(row // self.cells, col // self.cells)

    def topic(self, lat: float, lon: float) -> str:
        """The topic of the quadrant; TopicClusterDoesNotExistError outside the map."""
        row, col = self.cell_index(lat, lon)
        return self._topics[row // self.cells][col // self.cells]

    def topics(self) -> list[str]:
        """Of all quadrants, row by row from the south-west."""
        return [name for row in self._topics for name in row]

    def contains(self, lat: float, lon: float) -> bool:
        try:
            self.cell_index(lat, lon)
        except TopicClusterDoesNotExistError:
            return False
        return True

    def quadrant_of(self, cell: Cell) -> Quadrant:
        self._require_cell(cell)
        return Quadrant(cell.row // self.cells, cell.col // self.cells)

    def quadrant_of_topic(self, topic: str) -> Quadrant | None:
        """None for a topic that is no quadrant of this map."""
        found = parse_quadrant_topic(topic)
        if found is None or found[0] >= self.rows or found[1] >= self.cols:
            return None
        return Quadrant(*found)

    def plan_of_topic(self, topic: str) -> TopicPlan:
        """What it is created with. One broker after the other leads a quadrant."""
        if topic in SHARED_PLANS:
            return SHARED_PLANS[topic]
        quadrant = self.quadrant_of_topic(topic)
        return quadrant_plan(topic, None if quadrant is None else quadrant.row * self.cols + quadrant.col)

    def cell_center(self, cell: Cell) -> tuple[float, float]:
        """Latitude and longitude."""
        self._require_cell(cell)
        south, _, height, west, width, rows, cols = self._scale
        lat = south + (cell.row + 0.5) / rows * height
        lon = west + (cell.col + 0.5) / cols * width
        return lat, lon - 360.0 if lon >= 180.0 else lon

    def as_dict(self) -> dict[str, Any]:
        """What `to_json` writes, for those who write JSON themselves."""
        box = self.bbox
        bounds = [box.west, box.south, box.east, box.north]
        return {"bbox": bounds, "rows": self.rows, "cols": self.cols, "cells": self.cells}

    def to_json(self) -> bytes:
        """
        >>> DEFAULT_GRID.to_json()
        b'{"bbox":[-123.16,49.205,-123.01,49.305],"rows":2,"cols":2,"cells":24}'
        """
        return orjson.dumps(self.as_dict())

    @staticmethod
    def from_json(data: bytes | str) -> Grid:
        """InvalidMessageError for what is not a map."""
        try:
            found = orjson.loads(data)
            if not isinstance(found, Mapping) or len(found["bbox"]) != 4:
                raise ValueError("an object with a bbox of four numbers is wanted")
            return Grid(BBox(*found["bbox"]), found["rows"], found["cols"], found["cells"])
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidMessageError(f"not a map: {error}") from error

    def _require_cell(self, cell: Cell) -> None:
        if not (0 <= cell.row < self.rows * self.cells and 0 <= cell.col < self.cols * self.cells):
            raise TopicClusterDoesNotExistError(f"{cell} is outside the map")


def east_of(west: float, lon: float) -> float:
    """How many degrees to the east of `west` a longitude is: from 0 to less than 360, but for rounding.

    >>> east_of(170.0, -180.0), east_of(170.0, 180.0)
    (10.0, 10.0)
    """
    if lon == 180.0:
        lon = -180.0
    east = lon - west
    return east + 360.0 if east < 0.0 else east


def _degrees(name: str, value: object, limit: int) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} is a number of degrees, not {value!r}")
    if not -limit <= value <= limit:
        raise ValueError(f"{name} is between -{limit} and {limit} degrees, not {value!r}")
    return float(value)


def _require_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is a whole number, not {value!r}")
    if value < 1:
        raise ValueError(f"{name} is at least 1, not {value}")


DEFAULT_GRID: Final = Grid(BBox(west=-123.160, south=49.205, east=-123.010, north=49.305), rows=2, cols=2)
"""The map of a cluster that nobody has given another one: a city, and four topics."""
