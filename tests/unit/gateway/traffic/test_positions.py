"""Bodies of requests: one position or many, and which one is wrong."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from penstock.gateway.errors import ApiFailure
from penstock.gateway.traffic.positions import parse_positions
from penstock.traffic.grid import DEFAULT_GRID
from penstock.traffic.position import Position

NOW = 1_700_000_000_000
GOOD: dict[str, Any] = {"car": "a", "lat": 49.21, "lon": -123.15}


def parse(body: Any, limit: int = 100) -> list[tuple[str, Position]]:
    content = body if isinstance(body, bytes) else orjson.dumps(body)
    return [tuple(each) for each in parse_positions(content, DEFAULT_GRID, NOW, limit)]


def test_one_or_many() -> None:
    here = Position("a", 49.21, -123.15, 0.0, 0.0, NOW)
    there = Position("7", 49.3, -123.02, 50.0, 90.0, 5)
    assert parse(GOOD) == [("traffic.r0.c0", here)]
    many = [GOOD, {"car": 7, "lat": 49.3, "lon": -123.02, "speed": 50, "heading": 90, "ts": 5}]
    assert parse(many) == [("traffic.r0.c0", here), ("traffic.r1.c1", there)]
    assert parse([]) == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"car": None}, "car"),
        ({"car": ""}, "car"),
        ({"car": "x" * 129}, "car"),
        ({"car": True}, "car"),
        ({"car": 1.5}, "car"),
        ({"lat": "NaN"}, "lat"),
        ({"lat": None}, "lat"),
        ({"lat": True}, "lat"),
        ({"lon": [1]}, "lon"),
        ({"lat": 91}, "lat"),
        ({"lon": -181}, "lon"),
        ({"lat": 50}, "lat"),
        ({"lon": 0}, "lon"),
        ({"speed": -1}, "speed"),
        ({"speed": "fast"}, "speed"),
        ({"heading": 361}, "heading"),
        ({"ts": NOW + 60_001}, "ts"),
        ({"ts": "now"}, "ts"),
        ({"ts": 1.5}, "ts"),
        ({"ts": -1}, "ts"),
    ],
)
def test_the_wrong_one_is_named(change: dict[str, Any], field: str) -> None:
    for body, index in ((GOOD | change, 0), ([GOOD, GOOD, GOOD | change, {}], 2)):
        with pytest.raises(ApiFailure, match=f"position {index}: {field}") as caught:
            parse(body)
        assert (caught.value.status, caught.value.fields) == (400, {"index": index, "field": field})


@pytest.mark.parametrize("missing", ["car", "lat", "lon"])
def test_what_is_missing(missing: str) -> None:
    with pytest.raises(ApiFailure, match=f"{missing}: is missing"):
        parse({name: value for name, value in GOOD.items() if name != missing})


@pytest.mark.parametrize("body", [b"", b"\xff", b"{", b'{"car":"a","lat":NaN,"lon":1}', b'{"car":"\\ud800"}'])
def test_what_is_not_json(body: bytes) -> None:
    with pytest.raises(ApiFailure, match="not JSON") as caught:
        parse(body)
    assert caught.value.status == 400


@pytest.mark.parametrize("body", [None, 1, "a", [1], [[]], [None], [[GOOD]]])
def test_what_is_no_position(body: Any) -> None:
    with pytest.raises(ApiFailure, match="not an object"):
        parse(body)


def test_too_many() -> None:
    assert len(parse([GOOD] * 100)) == 100
    with pytest.raises(ApiFailure, match="a request may have 100") as caught:
        parse([GOOD] * 101)
    assert caught.value.status == 413
