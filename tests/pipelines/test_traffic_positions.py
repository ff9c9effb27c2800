"""Messages as columns: every outcome, and the same cells as `Grid.cell`. No broker is needed."""

from __future__ import annotations

import json
import math
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from penstock.client.errors import TopicClusterDoesNotExistError
from penstock.pipelines.traffic.tally import ANCIENT, GOOD, REASONS
from penstock.pipelines.traffic.transforms import positions
from penstock.traffic.grid import DEFAULT_GRID, BBox, Grid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Row, SparkSession

WRITTEN = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
NOW = int(WRITTEN.timestamp() * 1000)
TOPIC = "traffic.r0.c0"
RIGHT = {"car": "a", "lat": 49.21, "lon": -123.15, "speed": 30.5, "heading": 3, "ts": NOW}


def message(**changes: object) -> bytes:
    return json.dumps(RIGHT | changes).encode()


def without(name: str) -> bytes:
    return json.dumps({key: value for key, value in RIGHT.items() if key != name}).encode()


OUTCOMES: dict[str, list[bytes | None]] = {
    "good": [
        message(),
        message(car=7),
        message(car="1.5"),
        message(car="true"),
        message(car="{"),
        message(car="x" * 128),
        message(car="a\x00b"),
        message(ts=NOW + 60_000),
        message(ts=NOW - 86_400_000),
        message(lat=49.205, lon=-123.160),
        message(other=[[[]]]),
    ],
    "ancient": [message(ts=NOW - 86_400_001), message(ts=0)],
    "json": [
        None,
        b"",
        b"x",
        b"5",
        b"null",
        b"[1]",
        b"[" + message() + b"]",
        message()[:-5],
        b"\xff" + message(),
        message().replace(b'"a"', b'"\xe4"'),
        b'{"x":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
        b'{"car":"a","lat":' + b"1" * 2_000 + b"}",
    ],
    "car": [
        b"{}",
        without("car"),
        message(car=None),
        message(car=""),
        message(car="x" * 129),
        message(car=True),
        message(car=1.5),
        message(car={"a": 1}),
        message(car=["a"]),
        b'{"car":"' + b"y" * 900_000 + b'"}',
    ],
    "lat": [
        without("lat"),
        message(lat=None),
        message(lat="49.21"),
        message(lat=math.nan),
        message(lat=math.inf),
        message(lat=True),
        message(lat=90.1),
        message().replace(b"49.21", b"1e400"),
    ],
    "lon": [without("lon"), message(lon="x"), message(lon=-180.5), message(lon=math.nan)],
    "speed": [without("speed"), message(speed=-0.1), message(speed=1_000.1), message(speed=math.inf)],
    "heading": [without("heading"), message(heading=361), message(heading=-1), message(heading=[])],
    "ts": [
        without("ts"),
        message(ts=-1),
        message(ts=NOW + 0.5),
        message(ts=str(NOW)),
        message(ts=2**63 - 1),
        message(ts=10**30),
        message(ts=True),
    ],
    "future": [message(ts=NOW + 60_001), message(ts=253_402_300_799_999)],
    "outside": [message(lat=49.2), message(lon=-123.0), message(lat=-90, lon=180)],
    "elsewhere": [message(lat=49.30), message(lon=-123.02)],
}
NAMES = {GOOD: "good", ANCIENT: "ancient"} | dict(enumerate(REASONS, start=1))


def judged(spark: SparkSession, grid: Grid, rows: list[tuple[bytes | None, str]]) -> list[Row]:
    frame = spark.createDataFrame(
        [(value, topic, WRITTEN) for value, topic in rows], "value BINARY, topic STRING, timestamp TIMESTAMP"
    )
    return positions(frame.coalesce(1), grid).collect()


def test_every_outcome(spark: SparkSession) -> None:
    cases = [(name, value) for name, values in OUTCOMES.items() for value in values]
    found = judged(spark, DEFAULT_GRID, [(value, TOPIC) for _, value in cases])
    wrong = [
        (name, NAMES[row.outcome], (value or b"")[:80])
        for (name, value), row in zip(cases, found, strict=True)
        if name != NAMES[row.outcome]
    ]
    assert wrong == []
    assert set(OUTCOMES) == set(NAMES.values())
    for (name, _), row in zip(cases, found, strict=True):
        assert (row.event_time is not None) == (name == "good"), "only what is counted moves the watermark"


def test_what_is_counted_is_what_was_sent(spark: SparkSession) -> None:
    first, same, other_ts, other_car = judged(
        spark,
        DEFAULT_GRID,
        [
            (message(speed=31.4159), TOPIC),
            (message(speed=2), TOPIC),
            (message(ts=NOW + 1), TOPIC),
            (message(car="b"), TOPIC),
        ],
    )
    assert first.speed == 31_416
    assert int(first.event_time.timestamp() * 1000) == NOW
    assert first.key == same.key
    assert len({first.key, other_ts.key, other_car.key}) == 3


GRIDS = {
    "default": DEFAULT_GRID,
    "date line": Grid(BBox(177.3, -19.5, -178.1, -16.0), rows=3, cols=2, cells=7),
    "world": Grid(BBox(-180.0, -90.0, 180.0, 90.0), rows=2, cols=4, cells=5),
    "turned world": Grid(BBox(180.0, -90.0, 180.0 - 1e-9, 90.0), rows=1, cols=3, cells=3),
}


def places(grid: Grid, chance: random.Random) -> Iterator[tuple[float, float]]:
    """Corners and edges of cells, their neighbours among doubles, and points anywhere in and around."""
    box, rows, cols = grid.bbox, grid.rows * grid.cells, grid.cols * grid.cells

    def near(value: float, limit: float) -> Iterator[float]:
        for shifted in (value, math.nextafter(value, -math.inf), math.nextafter(value, math.inf)):
            yield max(-limit, min(limit, shifted))

    def turned(lon: float) -> float:
        return lon - 360 if lon > 180 else lon

    for _ in range(60):
        lat = box.south + chance.randint(0, rows) / rows * box.height
        lon = turned(box.west + chance.randint(0, cols) / cols * box.width)
        yield from ((a, o) for a in near(lat, 90) for o in near(lon, 180))
    for _ in range(200):
        yield (
            max(-90.0, min(90.0, box.south + chance.uniform(-0.1, 1.1) * box.height)),
            max(-180.0, min(180.0, turned(box.west + chance.uniform(-0.1, 1.1) * box.width))),
        )
    yield from ((lat, lon) for lat in (-90.0, 90.0, 0.0, -0.0) for lon in (-180.0, 180.0, 0.0, -0.0))


@pytest.mark.parametrize("name", GRIDS)
def test_the_cells_of_the_grid(spark: SparkSession, name: str) -> None:
    grid = GRIDS[name]
    wanted = list(places(grid, random.Random(name)))

    def expected(lat: float, lon: float) -> tuple[str, int | None]:
        try:
            cell = grid.cell(lat, lon)
        except TopicClusterDoesNotExistError:
            return "outside", None
        return "good", cell.row * grid.cols * grid.cells + cell.col

    def topic(lat: float, lon: float) -> str:
        return grid.topic(lat, lon) if grid.contains(lat, lon) else TOPIC

    found = judged(spark, grid, [(message(lat=lat, lon=lon), topic(lat, lon)) for lat, lon in wanted])
    wrong = [
        (place, expected(*place), NAMES[row.outcome], row.cell)
        for place, row in zip(wanted, found, strict=True)
        if expected(*place) != (NAMES[row.outcome], row.cell if row.outcome == GOOD else None)
    ]
    assert wrong == []
    assert {NAMES[row.outcome] for row in found} >= {"good"}
