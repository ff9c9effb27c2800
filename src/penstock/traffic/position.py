"""Where a car is, when, how fast and which way. A Position that exists is valid.

On the wire it is JSON with all six fields,
`{"car": "7", "lat": x, "lon": x, "speed": x, "heading": x, "ts": n}`, and the message's key is the car.
What others wrote is checked just as strictly when it is read.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from penstock.client.errors import InvalidPositionError

CAR_CHARACTERS_MAX: Final = 128
SPEED_KMH_MAX: Final = 1000.0
FUTURE_MS_MAX: Final = 60_000
"""A clock may be ahead of ours by so much."""
TS_MS_MAX: Final = 253_402_300_799_999
"""The end of the year 9999."""
ENCODED_AT_ONCE: Final = 500
FIELDS: Final = ("car", "lat", "lon", "speed", "heading", "ts")

_RANGES: Final = {
    "lat": (-90.0, 90.0),
    "lon": (-180.0, 180.0),
    "speed": (0.0, SPEED_KMH_MAX),
    "heading": (0.0, 360.0),
}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Position:
    """InvalidPositionError names the first field that is not as below.

    >>> Position("taxi 7", lat=49.25, lon=-123.1, speed=31.5, heading=90.0, ts=1_700_000_000_000).car
    'taxi 7'
    >>> Position("taxi 7", lat=91, lon=0)
    Traceback (most recent call last):
    penstock.client.errors.InvalidPositionError: lat: 91 is not between -90 and 90
    """

    car: str
    """1 to 128 characters; an int is taken as its digits."""
    lat: float
    """Degrees, from -90 to 90."""
    lon: float
    """Degrees, from -180 to 180."""
    speed: float = 0.0
    """km/h, at most 1000."""
    heading: float = 0.0
    """Degrees clockwise from north, from 0 to 360."""
    ts: int = field(default_factory=now_ms)
    """Milliseconds since 1970 (UTC); without it, now."""

    def __post_init__(self) -> None:
        # One expression for those that are right, which are very many; the reason is looked for afterwards.
        if not (
            type(self.lat) is type(self.lon) is type(self.speed) is type(self.heading) is float
            and type(self.ts) is int
            and type(self.car) is str
            and -90.0 <= self.lat <= 90.0
            and -180.0 <= self.lon <= 180.0
            and 0.0 <= self.speed <= SPEED_KMH_MAX
            and 0.0 <= self.heading <= 360.0
            and 0 <= self.ts <= TS_MS_MAX
            and 0 < len(self.car) <= CAR_CHARACTERS_MAX
            and self.car.isascii()
        ):
            self._convert()

    def _convert(self) -> None:
        """Makes the fields what they are annotated as, or says which one cannot be."""
        object.__setattr__(self, "car", car_name(self.car))
        for name, (low, high) in _RANGES.items():
            object.__setattr__(self, name, _number(name, getattr(self, name), low, high))
        object.__setattr__(self, "ts", _timestamp(self.ts))

    def to_json(self) -> bytes:
        """
        >>> Position(7, 49.25, -123.1, 31.5, 90.0, 1_700_000_000_000).to_json()
        b'{"car":"7","lat":49.25,"lon":-123.1,"speed":31.5,"heading":90.0,"ts":1700000000000}'
        """
        return orjson.dumps(self)

    @staticmethod
    def from_json(data: bytes | str) -> Position:
        """What `to_json` wrote; other fields beside the six are not looked at.

        >>> Position.from_json(b'{"car":"7","lat":49.25}')
        Traceback (most recent call last):
        penstock.client.errors.InvalidPositionError: lon: is missing
        """
        try:
            found = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise InvalidPositionError("json", str(error)) from error
        if not isinstance(found, dict):
            raise InvalidPositionError("json", "not an object")
        return Position(*[found[name] if name in found else _missing(name) for name in FIELDS])


def encode_positions(positions: Sequence[Position]) -> list[bytes]:
    """`to_json` of each, in a quarter of the time.

    One document is written for many and cut between the objects. Should a car's name look like such a gap,
    there are too many pieces, and only then.
    """
    encoded: list[bytes] = []
    for start in range(0, len(positions), ENCODED_AT_ONCE):
        some = positions[start : start + ENCODED_AT_ONCE]
        document = orjson.dumps(
            [
                {
                    "car": each.car,
                    "lat": each.lat,
                    "lon": each.lon,
                    "speed": each.speed,
                    "heading": each.heading,
                    "ts": each.ts,
                }
                for each in some
            ]
        )
        pieces = document[2:-2].split(b"},{")
        if len(pieces) == len(some):
            encoded += [b"{%b}" % piece for piece in pieces]
        else:
            encoded += [each.to_json() for each in some]
    return encoded


def parse_position(found: Mapping[str, Any], now_ms: int) -> Position:
    """A position that somebody sends, at this moment: without speed and heading it stands still, without ts
    it is now, and a ts too far ahead is refused.

    >>> parse_position({"car": 7, "lat": 49.25, "lon": -123.1}, now_ms=1_700_000_000_000)
    Position(car='7', lat=49.25, lon=-123.1, speed=0.0, heading=0.0, ts=1700000000000)
    """
    if not isinstance(found, Mapping):
        raise InvalidPositionError("position", "not an object")
    for name in ("car", "lat", "lon"):
        if name not in found:
            _missing(name)
    position = Position(
        found["car"],
        found["lat"],
        found["lon"],
        found.get("speed", 0.0),
        found.get("heading", 0.0),
        found.get("ts", now_ms),
    )
    require_not_ahead(position, now_ms)
    return position


def require_not_ahead(position: Position, now_ms: int) -> None:
    if position.ts > now_ms + FUTURE_MS_MAX:
        raise InvalidPositionError("ts", f"{position.ts} is {position.ts - now_ms} ms ahead of the clock")


def car_name(car: object) -> str:
    """The name of a car, from what a user may give for it."""
    if isinstance(car, int) and not isinstance(car, bool) and abs(car) < 10**CAR_CHARACTERS_MAX:
        car = str(car)
    if not isinstance(car, str):
        raise InvalidPositionError("car", f"neither a text nor an id: {_shown(car)}")
    if not 0 < len(car) <= CAR_CHARACTERS_MAX:
        raise InvalidPositionError("car", f"{len(car)} characters, not 1 to {CAR_CHARACTERS_MAX}")
    try:
        car.encode()
    except UnicodeEncodeError as error:
        raise InvalidPositionError("car", f"not a text that UTF-8 can hold: {error.reason}") from error
    return str(car)


def _number(name: str, value: object, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidPositionError(name, f"{_shown(value)} is not a number")
    if not low <= value <= high:
        raise InvalidPositionError(name, f"{_shown(value)} is not between {low:g} and {high:g}")
    return float(value)


def _timestamp(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidPositionError("ts", f"{_shown(value)} is not a whole number of milliseconds")
    if not 0 <= value <= TS_MS_MAX:
        raise InvalidPositionError("ts", f"{_shown(value)} is not between 0 and {TS_MS_MAX}")
    return int(value)


def _missing(name: str) -> Any:
    raise InvalidPositionError(name, "is missing")


def _shown(value: object) -> str:
    """Somebody else's value in a message of ours; a number may have more digits than Python prints."""
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
