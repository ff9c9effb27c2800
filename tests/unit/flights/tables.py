"""Small files of the real schema."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

HEADER = (
    "legId,startingAirport,destinationAirport,travelDuration,totalFare,totalTravelDistance,"
    "segmentsArrivalAirportCode\n"
)


class Tables(NamedTuple):
    itineraries: Path
    airports: Path

    def paths(self) -> dict[str, str]:
        return {"itineraries": str(self.itineraries), "airports": str(self.airports)}

    def options(self) -> list[str]:
        return ["--itineraries", str(self.itineraries), "--airports", str(self.airports)]


@functools.cache
def itineraries(rows: int) -> str:
    lines = (f"leg{number:06},AAA,BBB,PT5H{number % 60}M,{number}.5,100,CCC||BBB\n" for number in range(rows))
    return HEADER + "".join(lines)


def write_tables(folder: Path, rows: int) -> Tables:
    found = Tables(folder / "itineraries.csv", folder / "airports.csv")
    found.itineraries.write_text(itineraries(rows))
    found.airports.write_text("Airport Code;Latitude;Longitude\nAAA;1.5;2.5\nBBB;3;4")
    return found
