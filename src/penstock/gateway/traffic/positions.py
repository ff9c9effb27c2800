"""Positions in the body of a request: all good, or the first that is not and why. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from penstock.client.errors import InvalidPositionError, TopicClusterDoesNotExistError
from penstock.gateway.errors import ApiFailure
from penstock.traffic.position import Position, parse_position

if TYPE_CHECKING:
    from penstock.traffic.grid import Grid


class Placed(NamedTuple):
    """A position, and the topic of the quadrant where it is."""

    topic: str
    position: Position


def parse_positions(body: bytes, grid: Grid, now_ms: int, limit: int) -> list[Placed]:
    """One position or a list of them, each on the map. ApiFailure says what is wrong with which."""
    found = load(body)
    if not isinstance(found, list):
        return [place(found, grid, now_ms, 0)]
    if len(found) > limit:
        raise ApiFailure(413, f"{len(found)} positions; a request may have {limit}")
    return [place(each, grid, now_ms, index) for index, each in enumerate(found)]


def load(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ApiFailure(400, f"the body is not JSON: {error}") from None


def place(found: Any, grid: Grid, now_ms: int, index: int) -> Placed:
    try:
        position = parse_position(found, now_ms)
        try:
            return Placed(grid.topic(position.lat, position.lon), position)
        except TopicClusterDoesNotExistError:
            field = "lon" if grid.bbox.south <= position.lat <= grid.bbox.north else "lat"
            reason = f"{getattr(position, field)} is outside the map"
            raise InvalidPositionError(field, reason) from None
    except InvalidPositionError as error:
        raise ApiFailure(400, f"position {index}: {error}", index=index, field=error.field) from None
