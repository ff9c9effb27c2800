"""The map of the city as `traffic.map` has it: the grid of quadrants, and the streets. Pure.

Where nobody has published a map, the default one counts. One that can not be read leaves the map as it was;
if none was, nothing can be said of any place: the default could put cars elsewhere than everybody else does.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from penstock.client.errors import InvalidMessageError
from penstock.traffic.city_map import GRID_KEY, STREETS_KEY
from penstock.traffic.grid import DEFAULT_GRID, Grid

NO_STREETS: Final[dict[str, Any]] = {"type": "FeatureCollection", "features": []}


class City:
    def __init__(self) -> None:
        self.grid: Grid = DEFAULT_GRID
        self._streets = NO_STREETS
        self._geojson: bytes | None = None
        self._has_grid = False
        self.problem: str | None = None
        """Why nothing can be said of any place."""
        self.refused = 0
        """Records that are no part of a map."""

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """The next record of the topic. Without a value it takes back what was said under its key."""
        try:
            if key == GRID_KEY:
                self._apply_grid(value)
            elif key == STREETS_KEY:
                self._streets = NO_STREETS if value is None else parse_streets(value)
            else:
                self.refused += 1
                return
        except InvalidMessageError:
            self.refused += 1
            return
        self._geojson = None

    def _apply_grid(self, value: bytes | None) -> None:
        try:
            self.grid = DEFAULT_GRID if value is None else Grid.from_json(value)
        except InvalidMessageError as error:
            if not self._has_grid:
                self.problem = f"the map of the city can not be read: {error}"
            raise
        self._has_grid, self.problem = value is not None, None

    def clear(self) -> None:
        self.grid, self._streets, self._geojson = DEFAULT_GRID, NO_STREETS, None
        self._has_grid, self.problem = False, None

    def geojson(self) -> bytes:
        """The streets, and beside them the grid."""
        if self._geojson is None:
            self._geojson = orjson.dumps({**self._streets, "grid": self.grid.as_dict()})
        return self._geojson


def parse_streets(value: bytes) -> dict[str, Any]:
    """A collection of lines. InvalidMessageError for what is none: whoever draws it need not expect that."""
    try:
        found = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise InvalidMessageError(f"the streets are not JSON: {error}") from error
    if not isinstance(found, dict) or found.get("type") != "FeatureCollection":
        raise InvalidMessageError("the streets are no collection of features")
    features = found.get("features")
    if not isinstance(features, list) or not all(map(is_line, features)):
        raise InvalidMessageError("not all features are lines")
    return found


def is_line(feature: Any) -> bool:
    if not isinstance(feature, dict) or feature.get("type") != "Feature":
        return False
    geometry, properties = feature.get("geometry"), feature.get("properties")
    if not isinstance(geometry, dict) or geometry.get("type") != "LineString":
        return False
    if properties is not None and not isinstance(properties, dict):
        return False
    points = geometry.get("coordinates")
    return isinstance(points, list) and len(points) >= 2 and all(map(is_point, points))


def is_point(point: Any) -> bool:
    return (
        isinstance(point, list)
        and len(point) >= 2
        and all(isinstance(number, int | float) and not isinstance(number, bool) for number in point)
    )
