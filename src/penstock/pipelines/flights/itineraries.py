"""Drawing itineraries: who flies where, over which stopovers, for how long and for how much.

An itinerary is drawn once and offered many times: the rows of a table repeat the segments of an itinerary
with other search dates, fares and legIds. So the expensive part, everything but four columns, is made into
two strings here, and a row costs one concatenation (see generate.py).
"""

from __future__ import annotations

import datetime
import functools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import Final

from penstock.pipelines.flights.places import CITIES, PLACES, SERVED, UNLISTED, Place, miles_between

LEGS: Final = (1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3)
MANY_LEGS: Final = (4, 4, 4, 5)
"""Three or more stopovers are rare: see generate.py."""
MISSING_DISTANCE_SHARE: Final = 0.068
"""7.5 % with those that land at the airport nobody has listed."""
OTHER_AIRPORT_SHARE: Final = 0.02
UNLISTED_SHARE: Final = 0.01
OVERNIGHT_SHARE: Final = 0.04
BASIC_ECONOMY_SHARE: Final = 0.065
OFFERS: Final = 12
"""How many fares an itinerary is offered for."""
FIRST_FLIGHT: Final = datetime.date(2022, 4, 17)
EPOCH_ORDINAL: Final = datetime.date(1970, 1, 1).toordinal()
FIRST_FLIGHT_DAY: Final = FIRST_FLIGHT.toordinal() - EPOCH_ORDINAL
FLIGHT_DAYS: Final = 60
SECONDS_PER_DAY: Final = 86_400
MINUTES_PER_DAY: Final = 1_440

AIRLINES: Final = (
    ("American Airlines", "AA", ("Boeing 737-800", "Airbus A321", "Embraer 175", "")),
    ("United", "UA", ("Boeing 737-900", "Airbus A319", "Embraer 175 (Enhanced Winglets)")),
    ("Delta", "DL", ("Airbus A321", "Boeing 717", "Airbus A220-100", "Boeing 757-300")),
    ("JetBlue Airways", "B6", ("Airbus A320", "Embraer 190")),
    ("Alaska Airlines", "AS", ("Boeing 737-900", "Boeing 737 MAX 9")),
    ("Spirit Airlines", "NK", ("AIRBUS INDUSTRIE A320 SHARKLETS", "AIRBUS INDUSTRIE A321 SHARKLETS")),
)
FARE_ENDINGS: Final = (("60", "10", "61", "58", "20", "70", "59", "09"), (56, 70, 79, 84, 89, 93, 97, 100))
"""Cents, and how many of 100 fares end in these or in those before."""
FARE_FACTORS: Final = tuple(math.exp(0.15 + 0.45 * NormalDist().inv_cdf((n + 0.5) / 400)) for n in range(400))
"""A long tail of expensive seats."""
BASIS_LETTERS: Final = "ABDEGHKLMNOPQSTUVXYZ0357"

NEIGHBOURS: Final = {
    code: tuple(other for other in city if other != code) for city in CITIES for code in city
}
ROUTES: Final = tuple((start, end) for start in SERVED for end in SERVED if start != end)
STOPOVERS: Final = tuple(code for code in PLACES if code != UNLISTED)
MILES: Final = {(a, b): miles_between(PLACES[a], PLACES[b]) for a in PLACES for b in PLACES}


@dataclass(frozen=True, slots=True)
class Itinerary:
    middle: str
    """Flight date to isNonStop, with the commas around them."""
    offers: tuple[str, ...]
    """baseFare, totalFare and seatsRemaining."""
    end: str
    """totalTravelDistance to the last column, with the comma before."""


def draw(rng: random.Random, legs_of: Sequence[int] = LEGS) -> Itinerary:
    start, end = rng.choice(ROUTES)
    path = draw_path(rng, start, end, rng.choice(legs_of))
    first = PLACES[path[0]]
    legs = list(pairwise(path))
    day = FIRST_FLIGHT_DAY + rng.randrange(FLIGHT_DAYS)
    minute = rng.randrange(5 * 60, 23 * 60)
    schedule = draw_schedule(rng, legs, minute)
    took = schedule[-1][1] - schedule[0][0]
    elapsed_days = int(minute + took >= MINUTES_PER_DAY)
    basic = rng.random() < BASIC_ECONOMY_SHARE
    basis = "".join(rng.choices(BASIS_LETTERS, k=8))
    flags = f"{elapsed_days},{basic},False,{len(legs) == 1}"
    middle = f",{day_text(day)},{start},{end},{basis},{iso_duration(took)},{flags},"
    segments = draw_segments(rng, legs, schedule, day * SECONDS_PER_DAY - first.utc_offset_hours * 3600)
    offers = draw_offers(rng, MILES[start, end], len(legs), basic)
    return Itinerary(middle, offers, segments)


def draw_path(rng: random.Random, start: str, end: str, legs: int) -> list[str]:
    """The airports a traveller sees; detours are kept small, but a short route has hubs far away as well."""
    path = [nearby(rng, start)]
    for missing in range(legs - 1, 0, -1):
        if rng.random() < UNLISTED_SHARE:
            path.append(UNLISTED)
            continue
        tried = [via for via in rng.sample(STOPOVERS, 6) if via not in path and via != end]
        path.append(min(tried, key=lambda via: MILES[path[-1], via] / missing + MILES[via, end]))
    last = nearby(rng, end)
    path.append(last if last not in path else end)
    return path


def nearby(rng: random.Random, code: str) -> str:
    others = NEIGHBOURS.get(code)
    return rng.choice(others) if others and rng.random() < OTHER_AIRPORT_SHARE * 2 else code


def draw_schedule(rng: random.Random, legs: list[tuple[str, str]], minute: int) -> list[tuple[int, int]]:
    """Departure and arrival of each leg, in minutes after midnight where the journey starts."""
    times = []
    for leg in legs:
        arrival = minute + 35 + int(MILES[leg] / 7.4) + rng.randrange(20)
        times.append((minute, arrival))
        wait = rng.randrange(600, 1500) if rng.random() < OVERNIGHT_SHARE else rng.randrange(40, 240)
        minute = arrival + wait
    return times


def draw_segments(
    rng: random.Random, legs: list[tuple[str, str]], schedule: list[tuple[int, int]], midnight: int
) -> str:
    """The columns after seatsRemaining; `midnight` is in epoch seconds."""
    airline, code, fleet = rng.choice(AIRLINES)
    miles = ["None"] * len(legs)
    total = ""
    is_unlisted = any(UNLISTED in leg for leg in legs)
    if rng.random() >= MISSING_DISTANCE_SHARE and not is_unlisted:
        miles = [str(max(1, round(MILES[leg]))) for leg in legs]
        total = str(sum(map(int, miles)))
    departures = [midnight + departure * 60 for departure, _ in schedule]
    arrivals = [midnight + arrival * 60 for _, arrival in schedule]
    columns: tuple[list[str], ...] = (
        list(map(str, departures)),
        [local_time(at, PLACES[leg[0]]) for at, leg in zip(departures, legs, strict=True)],
        list(map(str, arrivals)),
        [local_time(at, PLACES[leg[1]]) for at, leg in zip(arrivals, legs, strict=True)],
        [leg[1] for leg in legs],
        [leg[0] for leg in legs],
        [airline] * len(legs),
        [code] * len(legs),
        rng.choices(fleet, k=len(legs)),
        [str((arrival - departure) * 60) for departure, arrival in schedule],
        miles,
        ["coach"] * len(legs),
    )
    return f",{total}," + ",".join(map("||".join, columns))


def draw_offers(rng: random.Random, miles: float, legs: int, basic: bool) -> tuple[str, ...]:
    usual = (70 + 0.11 * miles) * (0.7 if basic else 1.0)
    fees = 9.7 + 4.5 * legs
    drawn = zip(
        rng.choices(FARE_FACTORS, k=OFFERS),
        rng.choices(FARE_ENDINGS[0], cum_weights=FARE_ENDINGS[1], k=OFFERS),
        rng.choices("0123456789", k=OFFERS),
        strict=True,
    )
    offers = []
    for factor, ending, seats in drawn:
        total = int(usual * factor)
        base = max(1.0, (total + 0.6 - fees) / 1.075)
        offers.append(f"{base:.2f},{total}.{ending},{seats}")
    return tuple(offers)


def local_time(epoch_seconds: int, place: Place) -> str:
    offset = place.utc_offset_hours
    days, seconds = divmod(epoch_seconds + offset * 3600, SECONDS_PER_DAY)
    hours, seconds = divmod(seconds, 3600)
    return f"{day_text(days)}T{hours:02d}:{seconds // 60:02d}:00.000-{-offset:02d}:00"


@functools.cache
def day_text(days: int) -> str:
    """The table spans a few months, so there are not many of them."""
    return datetime.date.fromordinal(EPOCH_ORDINAL + days).isoformat()


def iso_duration(minutes: int) -> str:
    days, minutes = divmod(minutes, MINUTES_PER_DAY)
    hours, minutes = divmod(minutes, 60)
    day = f"{days}D" if days else ""
    time = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "")
    return f"P{day}" + (f"T{time}" if time else "") if day or time else "PT0M"
