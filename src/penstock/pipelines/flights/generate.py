"""Writing tables of the real schema: seeded, streamed to disk block by block, whatever their size.

A block draws a few hundred itineraries and offers each of them several times. Some legIds come back within
a block, and some whole lines, because they do so in the real table.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import random
from collections.abc import Callable, Iterator
from typing import IO, Final

from penstock.pipelines.flights.itineraries import FIRST_FLIGHT, MANY_LEGS, draw
from penstock.pipelines.flights.places import PLACES, UNLISTED

ITINERARIES: Final = "itineraries.csv"
AIRPORTS: Final = "airports.csv"
HEADER: Final = (
    "legId,searchDate,flightDate,startingAirport,destinationAirport,fareBasisCode,travelDuration,elapsedDays,"
    "isBasicEconomy,isRefundable,isNonStop,baseFare,totalFare,seatsRemaining,totalTravelDistance,"
    "segmentsDepartureTimeEpochSeconds,segmentsDepartureTimeRaw,segmentsArrivalTimeEpochSeconds,"
    "segmentsArrivalTimeRaw,segmentsArrivalAirportCode,segmentsDepartureAirportCode,segmentsAirlineName,"
    "segmentsAirlineCode,segmentsEquipmentDescription,segmentsDurationInSeconds,segmentsDistance,"
    "segmentsCabinCode\n"
)
AIRPORTS_HEADER: Final = (
    "Airport Code;Airport Name;City Name;Country Name;Country Code;Latitude;Longitude;World Area Code;"
    "City Name geo_name_id;Country Name geo_name_id;coordinates"
)
BLOCK_ROWS: Final = 20_000
BLOCK_ITINERARIES: Final = 600
MANY_ITINERARIES: Final = 20
MANY_SHARE: Final = 0.005
"""Rows of a block with three or more stopovers: few, but in every table that is not tiny."""
REPEATED_LEG_ID_SHARE: Final = 0.02
REPEATED_ROW_SHARE: Final = 0.002
SEARCH_DAYS: Final = 30
LEG_ID_DIGITS: Final = 32

Progress = Callable[[int], None]


def generate(rows: int, folder: str, *, seed: int = 0, progress: Progress = lambda _: None) -> None:
    """Write both files into `folder`; `progress` gets the number of rows written so far."""
    os.makedirs(folder, exist_ok=True)
    with written_aside(os.path.join(folder, AIRPORTS)) as file:
        file.write(airports_text())
    with written_aside(os.path.join(folder, ITINERARIES)) as file:
        file.write(HEADER)
        written = 0
        for block in blocks(rows, seed):
            file.write("".join(block))
            written += len(block)
            progress(written)


def blocks(rows: int, seed: int) -> Iterator[list[str]]:
    """The lines of the table; the first lines of a longer table are not those of a shorter one."""
    rng = random.Random(seed)  # noqa: S311 - the same seed must give the same table
    searches = [f",{FIRST_FLIGHT - datetime.timedelta(days=days)}" for days in range(1, SEARCH_DAYS + 1)]
    for start in range(0, rows, BLOCK_ROWS):
        yield block_lines(rng, min(BLOCK_ROWS, rows - start), searches)


def block_lines(rng: random.Random, rows: int, searches: list[str]) -> list[str]:
    drawn = [draw(rng) for _ in range(min(rows, BLOCK_ITINERARIES))]
    digits = rng.randbytes(rows * LEG_ID_DIGITS // 2).hex()
    ids = [digits[at : at + LEG_ID_DIGITS] for at in range(0, len(digits), LEG_ID_DIGITS)]
    for _ in range(int(rows * REPEATED_LEG_ID_SHARE)):
        ids[rng.randrange(rows)] = rng.choice(ids)
    chosen = rng.choices(drawn, k=rows)
    many = [draw(rng, MANY_LEGS) for _ in range(MANY_ITINERARIES)]
    for _ in range(int(rows * MANY_SHARE)):
        chosen[rng.randrange(rows)] = rng.choice(many)
    offered = rng.choices(range(len(drawn[0].offers)), k=rows)
    searched = rng.choices(searches, k=rows)
    lines = [
        f"{leg}{search}{trip.middle}{trip.offers[offer]}{trip.end}\n"
        for leg, search, trip, offer in zip(ids, searched, chosen, offered, strict=True)
    ]
    for _ in range(int(rows * REPEATED_ROW_SHARE)):
        lines[rng.randrange(rows)] = rng.choice(lines)
    return lines


def airports_text() -> str:
    """As in the public file: with a byte order mark, CRLF, `\\N` for null, and some odd codes."""
    lines = [AIRPORTS_HEADER]
    for place in PLACES.values():
        if place.code != UNLISTED:
            where = f"{place.latitude};{place.longitude}"
            lines.append(
                f"{place.code};{place.name};{place.name};United States;US;{where};1;\\N;6252001;"
                f"{place.latitude}, {place.longitude}"
            )
    lines.append(
        "0A7;Hendersonville;Hendersonville;United States;US;35.3078;-82.4331;36;\\N;6252001;35.3078, -82.4331"
    )
    lines.append("---;Unnamed strip;\\N;\\N;\\N;0;0;\\N;\\N;\\N;0, 0")
    lines.append("XXN;Never surveyed;\\N;\\N;\\N;\\N;\\N;\\N;\\N;\\N;\\N")
    return "\ufeff" + "".join(f"{line}\r\n" for line in lines)


@contextlib.contextmanager
def written_aside(path: str) -> Iterator[IO[str]]:
    """The file appears under its name when it is complete, or not at all."""
    folder, name = os.path.split(path)
    aside = os.path.join(folder, f".{name}.{os.getpid()}")
    try:
        with open(aside, "w", encoding="utf-8", newline="") as file:
            yield file
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside)
        raise
