"""Positions: one that exists is valid, and comes back from the wire as it was."""

from __future__ import annotations

import dataclasses
import math
import pickle
import time
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.client.errors import InvalidMessageError, InvalidPositionError
from penstock.traffic.position import (
    CAR_CHARACTERS_MAX,
    ENCODED_AT_ONCE,
    FIELDS,
    FUTURE_MS_MAX,
    TS_MS_MAX,
    Position,
    car_name,
    encode_positions,
    parse_position,
)

NOW = 1_700_000_000_000
GOOD = {"car": "7", "lat": 49.25, "lon": -123.1, "speed": 31.5, "heading": 90.0, "ts": NOW}

cars = st.text(st.characters(codec="utf-8"), min_size=1, max_size=CAR_CHARACTERS_MAX)
positions = st.builds(
    Position,
    cars,
    st.floats(-90, 90),
    st.floats(-180, 180),
    st.floats(0, 1000),
    st.floats(0, 360),
    st.integers(0, TS_MS_MAX),
)

WRONG: list[tuple[str, Any]] = [
    *[
        (name, wrong)
        for name in ("lat", "lon", "speed", "heading")
        for wrong in (math.nan, math.inf, -math.inf)
    ],
    *[(name, wrong) for name in FIELDS for wrong in (True, False, None, [], {}, b"1", [1.0])],
    *[(name, "49.25") for name in FIELDS if name != "car"],
    *[(name, sign * 10**400) for name in FIELDS for sign in (1, -1)],
    ("lat", 90.000001),
    ("lat", -91),
    ("lon", math.nextafter(180, 181)),
    ("lon", -181),
    ("speed", -0.1),
    ("speed", 1000.1),
    ("heading", -1),
    ("heading", 360.1),
    ("ts", -1),
    ("ts", 1.5),
    ("ts", float(NOW)),
    ("ts", TS_MS_MAX + 1),
    ("car", ""),
    ("car", "x" * (CAR_CHARACTERS_MAX + 1)),
    ("car", 7.0),
    ("car", "\ud800"),
]


@pytest.mark.parametrize(("name", "wrong"), WRONG, ids=lambda value: repr(value)[:20])
def test_a_wrong_field_is_named(name: str, wrong: Any) -> None:
    with pytest.raises(InvalidPositionError) as raised:
        Position(**{**GOOD, name: wrong})
    assert raised.value.field == name
    assert str(raised.value).startswith(f"{name}: ")
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize(("name", "wrong"), WRONG, ids=lambda value: repr(value)[:20])
def test_what_somebody_sends_is_checked_alike(name: str, wrong: Any) -> None:
    with pytest.raises(InvalidPositionError) as raised:
        parse_position({**GOOD, name: wrong}, NOW)
    assert raised.value.field == name


@pytest.mark.parametrize(
    ("lat", "lon", "speed", "heading", "ts"),
    [(90, 180, 0, 0, 0), (-90, -180, 1000, 360, TS_MS_MAX), (0, -0.0, 1, 2, 3)],
)
def test_limits_are_included(lat: float, lon: float, speed: float, heading: float, ts: int) -> None:
    position = Position("7", lat, lon, speed, heading, ts)
    assert (position.lat, position.lon, position.speed, position.heading) == (lat, lon, speed, heading)
    for value in (position.lat, position.lon, position.speed, position.heading):
        assert type(value) is float
    assert type(position.ts) is int


def test_a_car_may_be_a_number() -> None:
    assert Position(7, 0, 0, ts=1) == Position("7", 0, 0, ts=1)
    assert car_name(-7) == "-7"
    assert car_name("é" * CAR_CHARACTERS_MAX) == "é" * CAR_CHARACTERS_MAX


class Name(str):
    __slots__ = ()


def test_subclasses_become_plain() -> None:
    assert type(Position(Name("7"), 0, 0).car) is str


def test_what_is_not_given() -> None:
    before = time.time_ns() // 1_000_000
    position = Position("7", 1, 2)
    assert (position.speed, position.heading) == (0, 0)
    assert before <= position.ts <= time.time_ns() // 1_000_000
    assert parse_position({"car": 7, "lat": 1, "lon": 2}, NOW) == Position("7", 1, 2, 0, 0, NOW)


def test_a_position_stays_as_it_is() -> None:
    position = Position("7", 1, 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        position.lat = 91.0  # type: ignore[misc]  # what this is about
    assert pickle.loads(pickle.dumps(position)) == position
    assert hash(position) == hash(dataclasses.replace(position))


@given(positions)
def test_json_and_back(position: Position) -> None:
    encoded = position.to_json()
    assert Position.from_json(encoded) == position
    assert list(orjson.loads(encoded)) == list(FIELDS)
    assert encode_positions([position]) == [encoded]


@given(st.lists(positions, max_size=5))
@example([])
@example([Position("},{", 1, 2, ts=3)])
@example([Position('"},{"car":"', 1, 2, ts=3), Position("},{},{", 1, 2, ts=3), Position("{}", 1, 2, ts=3)])
def test_many_are_encoded_as_each(some: list[Position]) -> None:
    assert encode_positions(some) == [position.to_json() for position in some]


def test_very_many_are_encoded_in_their_order() -> None:
    some = [Position(number, 1, 2, ts=number) for number in range(2 * ENCODED_AT_ONCE + 1)]
    assert encode_positions(some) == [position.to_json() for position in some]


@pytest.mark.parametrize("name", FIELDS)
def test_on_the_wire_nothing_is_missing(name: str) -> None:
    found = {key: value for key, value in GOOD.items() if key != name}
    with pytest.raises(InvalidPositionError, match=f"^{name}: is missing$"):
        Position.from_json(orjson.dumps(found))


def test_on_the_wire_others_may_add_fields() -> None:
    assert Position.from_json(orjson.dumps({**GOOD, "colour": "red"})) == Position(**GOOD)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"7",
        b"{",
        b"\xff",
        b'{"car":"\\ud800"}',
        b"[" * 10_000,
        orjson.dumps(GOOD).replace(b"49.25", b"NaN"),
        orjson.dumps(GOOD).replace(b"49.25", b"1e400"),
        orjson.dumps(GOOD).replace(b"49.25", b"9" * 400),
        orjson.dumps(GOOD).replace(b"49.25", b"null"),
        orjson.dumps(GOOD).replace(str(NOW).encode(), b"1.7e12"),
        orjson.dumps(GOOD).replace(str(NOW).encode(), b"9" * 30),
    ],
    ids=lambda data: repr(data[:20]),
)
def test_what_is_not_a_position(data: bytes) -> None:
    with pytest.raises(InvalidPositionError):
        Position.from_json(data)


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_bytes_that_happen_to_come(data: bytes) -> None:
    with pytest.raises(InvalidPositionError) as raised:
        Position.from_json(data)
    assert raised.value.field in ("json", *FIELDS)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from([*FIELDS, "other"]), anything))
def test_any_object_is_a_position_or_refused(found: dict[str, Any]) -> None:
    try:
        position = parse_position(found, NOW)
    except InvalidPositionError as error:
        field = error.field
    else:
        field = FIELDS[0]
        assert Position.from_json(position.to_json()) == position
    assert field in FIELDS


@pytest.mark.parametrize("wrong", [None, [], "x", 7])
def test_only_objects_are_positions(wrong: Any) -> None:
    with pytest.raises(InvalidPositionError, match="not an object"):
        parse_position(wrong, NOW)


def test_time() -> None:
    ahead = {**GOOD, "ts": NOW + FUTURE_MS_MAX}
    assert parse_position(ahead, NOW).ts == NOW + FUTURE_MS_MAX
    with pytest.raises(InvalidPositionError, match=r"^ts: .* ahead"):
        parse_position(ahead, NOW - 1)
    assert parse_position({**GOOD, "ts": 0}, NOW).ts == 0


def test_the_error_survives_other_processes() -> None:
    error = pickle.loads(pickle.dumps(InvalidPositionError("lat", "is missing")))
    assert isinstance(error, InvalidMessageError)
    assert (error.field, error.reason, str(error)) == ("lat", "is missing", "lat: is missing")
