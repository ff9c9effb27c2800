"""From messages to positions on the map, a batch of messages at a time. Pure.

Spark's own `from_json` would be the obvious way, and costs 13 µs for a message where orjson and columns of
numpy cost 3: at 20,000 messages per second a fifth of a core. It is the parser of `Position.from_json` too:
what a client would refuse is refused here, and nothing else is.

Nearly all messages are right. So each step first takes a column as if all of it was, and looks at single
values only when that fails.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.pipelines.traffic.tally import ANCIENT, GOOD, METRES, REASONS, Ints
from penstock.traffic.position import CAR_CHARACTERS_MAX, FUTURE_MS_MAX, SPEED_KMH_MAX, TS_MS_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.traffic.grid import Grid

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

ANCIENT_MS: Final = 86_400_000
"""Older than this when it was written: late, whatever the watermark is."""
PARSED: Final = pa.schema(
    [
        ("outcome", pa.int8()),
        ("event_time", pa.timestamp("us", "UTC")),
        ("clock", pa.timestamp("us", "UTC")),
        ("car", pa.string()),
        ("cell", pa.int64()),
        ("speed", pa.int64()),
    ]
)
"""`clock` moves the watermark: the event time, but not later than the message was written, or else one car
that is ahead of time would make all others late. Both are null for what is not counted. `speed` is in metres
per hour."""
_US_PER_MS: Final = 1_000
_NO_TS: Final = -1


def parse(messages: pa.RecordBatch, grid: Grid) -> pa.RecordBatch:
    """A row of PARSED for each message, which has `value`, `topic` and `timestamp`."""
    found, is_object = _objects(messages.column("value").to_pylist())
    written = messages.column("timestamp").cast(pa.int64()).to_numpy() // _US_PER_MS
    cars, is_car = _cars([each.get("car") for each in found])
    lat, lon, speed, heading = (
        _numbers([each.get(name) for each in found]) for name in ("lat", "lon", "speed", "heading")
    )
    ts = _timestamps([each.get("ts") for each in found])
    row, col, is_inside = _cells(lat, lon, grid)
    wrong: dict[str, Flags] = {
        "json": ~is_object,
        "car": ~is_car,
        "lat": ~_between(lat, -90, 90),
        "lon": ~_between(lon, -180, 180),
        "speed": ~_between(speed, 0, SPEED_KMH_MAX),
        "heading": ~_between(heading, 0, 360),
        "ts": ts == _NO_TS,
        "future": ts > written + FUTURE_MS_MAX,
        "outside": ~is_inside,
        "elsewhere": _quadrants(messages.column("topic"), grid)
        != row // grid.cells * grid.cols + col // grid.cells,
    }
    assert tuple(wrong) == REASONS
    outcome = np.where(ts < written - ANCIENT_MS, ANCIENT, GOOD).astype(np.int8)
    for code in range(len(REASONS), 0, -1):  # the first reason has the last word
        outcome[wrong[REASONS[code - 1]]] = code
    bad = outcome != GOOD
    return pa.record_batch(
        [
            pa.array(outcome),
            pa.array(ts * _US_PER_MS, pa.timestamp("us", "UTC"), mask=bad),
            pa.array(np.minimum(ts, written) * _US_PER_MS, pa.timestamp("us", "UTC"), mask=bad),
            pa.array(cars, pa.string()),
            pa.array(row * (grid.cols * grid.cells) + col),
            pa.array(np.rint(np.where(bad, 0, speed) * METRES).astype(np.int64)),
        ],
        schema=PARSED,
    )


def _objects(values: Sequence[bytes | None]) -> tuple[list[dict[str, Any]], Flags]:
    """The JSON objects; an empty one where there is none."""
    try:
        found: list[Any] = [orjson.loads(value) for value in values]  # type: ignore[arg-type]  # None is refused
    except orjson.JSONDecodeError:
        found = [_maybe_json(value) for value in values]
    if set(map(type, found)) <= {dict}:
        return found, np.ones(len(found), np.bool_)
    is_object = np.array([type(each) is dict for each in found], np.bool_)
    return [each if type(each) is dict else {} for each in found], is_object


def _maybe_json(value: bytes | None) -> Any:
    try:
        return orjson.loads(value)  # type: ignore[arg-type]  # None is refused, as text that is no JSON
    except orjson.JSONDecodeError:
        return None


def _cars(values: list[Any]) -> tuple[list[str], Flags]:
    """Names; a whole number is taken as its digits, anything else has none."""
    if not set(map(type, values)) <= {str}:
        values = [str(value) if type(value) is int else value for value in values]
        values = [value if type(value) is str else "" for value in values]
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    return values, (lengths > 0) & (lengths <= CAR_CHARACTERS_MAX)


def _numbers(values: list[Any]) -> Floats:
    """NaN for what is no number. A bool is none."""
    if not set(map(type, values)) <= {float, int}:
        values = [value if type(value) in (float, int) else math.nan for value in values]
    return np.array(values, np.float64)


def _timestamps(values: list[Any]) -> Ints:
    """_NO_TS for what is no whole number of milliseconds between 1970 and the year 9999."""
    if set(map(type, values)) <= {int} and (not values or (min(values) >= 0 and max(values) <= TS_MS_MAX)):
        return np.array(values, np.int64)
    right = (type(value) is int and 0 <= value <= TS_MS_MAX for value in values)
    return np.array([value if ok else _NO_TS for value, ok in zip(values, right, strict=True)], np.int64)


def _between(values: Floats, low: float, high: float) -> Flags:
    found: Flags = (values >= low) & (values <= high)  # NaN is not
    return found


def _cells(lat: Floats, lon: Floats, grid: Grid) -> tuple[Ints, Ints, Flags]:
    """Row and column of the cell by the arithmetic of Grid.cell_index, step by step; 0 if outside."""
    box, rows, cols = grid.bbox, grid.rows * grid.cells, grid.cols * grid.cells
    lon = np.where(lon == 180.0, -180.0, lon)
    north = lat - box.south
    east = lon - box.west
    east = np.where(east < 0.0, east + 360.0, east)
    inside = _between(lat, box.south, box.north) & (east <= box.width) & (lon >= -180.0) & (lon < 180.0)
    row = np.where(inside, north / box.height * rows, 0.0).astype(np.int64)
    col = np.where(inside, east / box.width * cols, 0.0).astype(np.int64)
    return np.minimum(row, rows - 1), np.minimum(col, cols - 1), inside


def _quadrants(topics: pa.Array, grid: Grid) -> Ints:
    """Row * columns + column of each topic; -1 for one that is no quadrant of this map."""
    encoded = pc.dictionary_encode(topics)
    numbers = np.full(len(encoded.dictionary) + 1, -1, np.int64)
    for place, topic in enumerate(encoded.dictionary.to_pylist()):
        quadrant = grid.quadrant_of_topic(topic)
        if quadrant is not None:
            numbers[place] = quadrant.row * grid.cols + quadrant.col
    found: Ints = numbers[encoded.indices.to_numpy(zero_copy_only=False)]
    return found
