"""Where airports are, and how far it is between them: great circles, by the haversine formula."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from penstock.pipelines.flights.numbers import maybe_number
from penstock.pipelines.flights.schemas import SEGMENT_SEPARATOR

EARTH_RADIUS_KM: Final = 6371.0
KM_PER_MILE: Final = 1.609344

Position = tuple[float, float]


def miles(here: Position, there: Position) -> float:
    """Between two positions: latitude and longitude, in radians."""
    chord = (
        math.sin((there[0] - here[0]) / 2) ** 2
        + math.cos(here[0]) * math.cos(there[0]) * math.sin((there[1] - here[1]) / 2) ** 2
    )
    # Rounding can bring the ends of the earth more than a diameter apart.
    return EARTH_RADIUS_KM * 2 * math.asin(math.sqrt(min(1.0, chord))) / KM_PER_MILE


class Airports:
    def __init__(self, positions: dict[str, Position]) -> None:
        self._positions = positions

    @classmethod
    def of_rows(cls, rows: Iterable[Sequence[str | None]]) -> Airports:
        """From code, latitude and longitude as they stand in the file; of two with one code the first."""
        positions: dict[str, Position] = {}
        for code, latitude, longitude in rows:
            name = (code or "").strip(" ")
            north, east = maybe_number(latitude, signed=True), maybe_number(longitude, signed=True)
            if name and north is not None and east is not None and abs(north) <= 90 and abs(east) <= 360:
                positions.setdefault(name, (math.radians(north), math.radians(east)))
        return cls(positions)

    def to_json(self) -> str:
        return json.dumps(self._positions)

    @classmethod
    def from_json(cls, text: str) -> Airports:
        return cls({code: (position[0], position[1]) for code, position in json.loads(text).items()})

    def maybe_miles(self, start: str, end: str) -> float | None:
        """Straight from one to the other; None if one of them is not known."""
        return self._along([start, end])

    def maybe_miles_along(self, start: str, arrivals: str) -> float | None:
        """From the start through all arrival codes, in order; None if one of them is not known."""
        return self._along([start, *arrivals.split(SEGMENT_SEPARATOR)])

    def _along(self, codes: Sequence[str]) -> float | None:
        places = [self._positions.get(code) for code in codes]
        length = 0.0
        for here, there in pairwise(places):
            if here is None or there is None:
                return None
            length += miles(here, there)
        return length
