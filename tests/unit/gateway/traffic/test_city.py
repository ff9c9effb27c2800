"""The map of the city out of records, good and bad."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from penstock.gateway.traffic.city import City
from penstock.traffic.grid import DEFAULT_GRID, BBox, Grid

GRID = Grid(BBox(8.0, 47.0, 9.0, 48.0), rows=3, cols=2)


def street(coordinates: Any, kind: str = "LineString") -> dict[str, Any]:
    return {
        "type": "Feature",
        "geometry": {"type": kind, "coordinates": coordinates},
        "properties": {"kind": "avenue", "name": "1st"},
    }


def streets(*features: Any) -> bytes:
    return orjson.dumps({"type": "FeatureCollection", "features": list(features)})


GOOD = streets(street([[8.1, 47.1], [8.2, 47.2]]))


def test_without_a_map() -> None:
    assert orjson.loads(City().geojson()) == {
        "type": "FeatureCollection", "features": [], "grid": orjson.loads(DEFAULT_GRID.to_json()),
    }  # fmt: skip


def test_the_newest_counts() -> None:
    city = City()
    city.apply(b"streets", GOOD)
    city.apply(b"grid", DEFAULT_GRID.to_json())
    city.apply(b"grid", GRID.to_json())
    told = orjson.loads(city.geojson())
    assert city.grid == GRID
    assert told["grid"] == orjson.loads(GRID.to_json())
    assert told["features"] == orjson.loads(GOOD)["features"]
    city.apply(b"streets", None)
    assert orjson.loads(city.geojson())["features"] == []
    city.clear()
    assert city.grid == DEFAULT_GRID


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"rivers", GOOD),
        (b"grid", b"x"),
        (b"grid", b"{}"),
        (b"grid", b'{"bbox":[0,0,1,1],"rows":0,"cols":1,"cells":1}'),
        (b"grid", b'{"bbox":[0,0,1,"1"],"rows":1,"cols":1,"cells":1}'),
        (b"streets", b"\xff"),
        (b"streets", b"[]"),
        (b"streets", b'{"type":"FeatureCollection"}'),
        (b"streets", streets(1)),
        (b"streets", streets({"type": "Feature"})),
        (b"streets", streets(street([[1, 2]]))),
        (b"streets", streets(street([[1, 2], [3]]))),
        (b"streets", streets(street([[1, 2], [3, "4"]]))),
        (b"streets", streets(street([[[1, 2], [3, 4]]], "Polygon"))),
        (b"streets", streets({**street([[1, 2], [3, 4]]), "properties": 7})),
    ],
)
def test_garbage_leaves_the_map_as_it_was(key: bytes | None, value: bytes) -> None:
    city = City()
    city.apply(b"grid", GRID.to_json())
    city.apply(b"streets", GOOD)
    before = city.geojson()
    city.apply(key, value)
    assert city.refused == 1
    assert city.geojson() == before
    assert city.problem is None


def test_a_first_map_that_can_not_be_read_is_no_map() -> None:
    city = City()
    city.apply(b"grid", b"x")
    assert city.problem is not None
    for good in (GRID.to_json(), None):
        city.apply(b"grid", b"x")
        city.apply(b"grid", good)
        assert city.problem is None
    city.apply(b"grid", b"x")
    assert city.problem is not None
    city.clear()
    assert city.problem is None
