"""Records on the topics of positions that are not positions, one kind for each way to be wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from penstock.traffic.grid import Grid
    from penstock.traffic.position import Position

FUTURE_MS: Final = 3_600_000

Record = tuple[str, str, bytes | None]
"""Topic, key and value."""


def broken_record(kind: str, position: Position, grid: Grid) -> Record:
    """A position that was all right, broken in this way, for the topic where it would belong."""
    topic = grid.topic(position.lat, position.lon)
    if kind == "elsewhere":
        return _another_topic(topic, grid), position.car, position.to_json()
    if kind == "outside":
        return topic, position.car, _changed(position, lat=_outside(grid))
    return topic, position.car, _VALUES[kind](position)


def _changed(position: Position, **fields: Any) -> bytes:
    return orjson.dumps(orjson.loads(position.to_json()) | fields)


def _without(position: Position, field: str) -> bytes:
    fields = orjson.loads(position.to_json())
    del fields[field]
    return orjson.dumps(fields)


def _with_literal(position: Position, field: str, literal: bytes) -> bytes:
    """What some writers of JSON make of numbers that JSON does not have."""
    return _changed(position, **{field: "?"}).replace(b'"?"', literal)


def _outside(grid: Grid) -> float:
    """A latitude beside the map; over a map from pole to pole it is beside the world."""
    north = grid.bbox.north + max(1.0, grid.bbox.height)
    return north if north <= 90.0 else grid.bbox.south - max(1.0, grid.bbox.height)


def _another_topic(topic: str, grid: Grid) -> str:
    topics = grid.topics()
    return topics[(topics.index(topic) + 1) % len(topics)]


_VALUES: Final[Mapping[str, Callable[[Position], bytes | None]]] = {
    "cut": lambda position: position.to_json()[: len(position.to_json()) // 2],
    "not-json": lambda position: b"car " + position.car.encode() + b" is late",
    "not-an-object": lambda position: b"[" + position.to_json() + b"]",
    "lat-text": lambda position: _changed(position, lat="north"),
    "lat-nan": lambda position: _with_literal(position, "lat", b"NaN"),
    "lon-null": lambda position: _changed(position, lon=None),
    "lon-infinity": lambda position: _with_literal(position, "lon", b"-Infinity"),
    "speed-text": lambda position: _changed(position, speed="fast"),
    "speed-negative": lambda position: _changed(position, speed=-1.0),
    "heading-range": lambda position: _changed(position, heading=400.0),
    "ts-text": lambda position: _changed(position, ts="now"),
    "ts-future": lambda position: _changed(position, ts=position.ts + FUTURE_MS),
    "no-ts": lambda position: _without(position, "ts"),
    "no-car": lambda position: _without(position, "car"),
    "no-lat": lambda position: _without(position, "lat"),
    "not-utf8": lambda position: _changed(position, car="?").replace(b'"?"', b'"\xff\xfe\x80"'),
    "empty": lambda _: b"",
    "null": lambda _: None,
}


def broken_kinds(grid: Grid) -> tuple[str, ...]:
    """On a map with one quadrant only, nobody can write to that of another."""
    return (*_VALUES, "outside", "elsewhere") if len(grid.topics()) > 1 else (*_VALUES, "outside")
