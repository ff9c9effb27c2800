"""Messages as columns: every outcome, those that a client would refuse, and the same cells as `Grid.cell`."""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.errors import InvalidPositionError, TopicClusterDoesNotExistError
from penstock.pipelines.traffic.parsing import PARSED, parse
from penstock.pipelines.traffic.tally import ANCIENT, GOOD, REASONS
from penstock.traffic.grid import DEFAULT_GRID, BBox, Grid
from penstock.traffic.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NOW = 1_772_366_400_000
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
        message() + b" x",
        message(lat=math.nan),
        message(speed=math.inf),
        message().replace(b"49.21", b"1e400"),
        message().replace(b'"a"', rb'"\ud800"'),
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
        message(lat=True),
        message(lat=90.1),
    ],
    "lon": [without("lon"), message(lon="x"), message(lon=-180.5)],
    "speed": [without("speed"), message(speed=-0.1), message(speed=1_000.1)],
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


@dataclass
class Judged:
    outcome: str
    event_ms: int | None
    car: str
    cell: int
    speed: int


def judged(rows: Sequence[tuple[bytes | None, str]], grid: Grid = DEFAULT_GRID) -> list[Judged]:
    values, names = [value for value, _ in rows], [topic for _, topic in rows]
    written = pa.array([NOW * 1000] * len(rows), pa.timestamp("us", "UTC"))
    messages = pa.record_batch(
        [pa.array(values, pa.binary()), pa.array(names, pa.string()), written],
        names=["value", "topic", "timestamp"],
    )
    found = parse(messages, grid)
    assert found.schema == PARSED
    columns = [column.to_pylist() for column in found.drop_columns(["clock"]).columns]
    columns[1] = [None if time is None else int(time.timestamp() * 1000) for time in columns[1]]
    return [Judged(NAMES[outcome], *others) for outcome, *others in zip(*columns, strict=True)]


CASES = [(name, value) for name, values in OUTCOMES.items() for value in values]


@pytest.mark.parametrize(("name", "value"), CASES, ids=lambda case: str(case)[:40])
def test_every_outcome_by_itself(name: str, value: bytes | None) -> None:
    (found,) = judged([(value, TOPIC)])
    assert found.outcome == name
    assert (found.event_ms is not None) == (name == "good"), "only what is counted moves the watermark"


def test_every_outcome_among_others() -> None:
    found = judged([(value, TOPIC) for _, value in CASES])
    assert [row.outcome for row in found] == [name for name, _ in CASES]
    assert set(OUTCOMES) == set(NAMES.values())
    assert judged([]) == []


def test_a_topic_that_is_no_quadrant() -> None:
    names = ["traffic.r0.c00", "traffic.r9.c0", "other", TOPIC]
    assert [row.outcome for row in judged([(message(), name) for name in names])] == ["elsewhere"] * 3 + [
        "good"
    ]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from([*RIGHT, "other"]), json_values, max_size=7), st.binary(max_size=3))
def test_what_a_client_refuses_is_malformed(changes: dict[str, object], tail: bytes) -> None:
    value = message(**changes) + tail
    try:
        Position.from_json(value)
        refused = None
    except InvalidPositionError as error:
        refused = error.field
    (found,) = judged([(value, TOPIC)])
    if refused is None:
        assert found.outcome in ("good", "ancient", "future", "outside", "elsewhere")
    else:
        assert found.outcome == refused


def test_what_is_good_is_as_it_was_sent() -> None:
    (found,) = judged([(message(car=7, speed=31.4159, lat=49.21, lon=-123.15), TOPIC)])
    cell = DEFAULT_GRID.cell(49.21, -123.15)
    assert found == Judged("good", NOW, "7", cell.row * 48 + cell.col, 31_416)


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
def test_the_cells_of_the_grid(name: str) -> None:
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

    found = judged([(message(lat=lat, lon=lon), topic(lat, lon)) for lat, lon in wanted], grid)
    wrong = [
        (place, expected(*place), row)
        for place, row in zip(wanted, found, strict=True)
        if expected(*place) != (row.outcome, row.cell if row.outcome == "good" else None)
    ]
    assert wrong == []
    assert {row.outcome for row in found} >= {"good"}


def test_a_car_that_is_ahead_of_time_does_not_move_the_watermark() -> None:
    """Or else all others would be late: only the time at which a message was written may."""
    messages = pa.record_batch(
        {
            "value": [message(ts=NOW + 50_000), message(ts=NOW - 3_000), b"x"],
            "topic": [TOPIC] * 3,
            "timestamp": pa.array([NOW * 1_000] * 3, pa.timestamp("us", "UTC")),
        }
    )
    found = parse(messages, DEFAULT_GRID)
    for name, wanted in (("event_time", [NOW + 50_000, NOW - 3_000]), ("clock", [NOW, NOW - 3_000])):
        times = found.column(name).cast(pa.int64()).to_pylist()
        assert times == [*(ms * 1_000 for ms in wanted), None]
