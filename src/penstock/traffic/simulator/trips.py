"""Why a car drives: people who go to work and home again, and people who are always on the road.

Times of day run faster than the cars: a day of 24 hours takes minutes, so that whoever looks at the map
sees rush hours, while cars move at real speeds. A way to work takes hours of such a day, so people have
time: who comes late to work stays for a moment, and who comes home late in the night leaves in the morning
all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from penstock.traffic.simulator.places import Place, Places

DAY_S: Final = 900.0
START_HOUR: Final = 6.0
MORNING_HOUR, EVENING_HOUR = 7.3, 16.8
"""When most people leave home, and when most leave work."""
SPREAD_HOURS: Final = 1.0
SPREAD_HOURS_MAX: Final = 3.0
OVERSLEPT_HOURS_MAX: Final = 4.0
"""Who is home later than so much after the time to leave stays there for the day."""
STAY_S_MIN: Final = 6.0
ERRAND_S: Final = (3.0, 20.0)
ERRAND_ON_WAY_HOME: Final = 0.2


@dataclass(frozen=True, slots=True)
class Day:
    """Hours go on counting after midnight: hour 31 is seven in the morning of the second day."""

    length_s: float = DAY_S
    start_hour: float = START_HOUR

    def hours(self, now_s: float) -> float:
        return self.start_hour + now_s / self.length_s * 24.0

    def seconds(self, hours: float) -> float:
        return (hours - self.start_hour) / 24.0 * self.length_s

    def clock(self, now_s: float) -> str:
        minutes = int(self.hours(now_s) * 60.0) % 1_440
        return f"{minutes // 60:02}:{minutes % 60:02}"


class Driver(Protocol):
    def first_place(self) -> Place:
        """Where the car is before it drives for the first time."""

    def leave_at(self, now_s: float) -> float:
        """How long it stays where it has arrived."""

    def next_place(self) -> Place:
        """Where it goes now."""


class Commuter:
    def __init__(self, places: Places, day: Day, random: Random) -> None:
        self._day = day
        self._places = places
        self._random = random
        self.home = places.home()
        self.work = places.work(self.home)
        self.leaves_home_hour = _about(MORNING_HOUR, random)
        self.leaves_work_hour = _about(EVENING_HOUR, random)
        self._at: Place | None = self.home

    def first_place(self) -> Place:
        return self.home

    def leave_at(self, now_s: float) -> float:
        earliest = now_s + STAY_S_MIN if now_s > 0.0 else 0.0
        hours = self._day.hours(now_s)
        if self._at is self.home:
            leaves = _next(self.leaves_home_hour, hours, OVERSLEPT_HOURS_MAX)
        elif self._at is self.work:
            leaves = _next(self.leaves_work_hour, hours, 24.0 - EVENING_HOUR + MORNING_HOUR)
        else:
            return now_s + self._random.uniform(*ERRAND_S)
        return max(earliest, self._day.seconds(leaves))

    def next_place(self) -> Place:
        if self._at is self.home:
            place = self.work
        elif self._at is self.work and self._random.random() < ERRAND_ON_WAY_HOME:
            place = self._places.errand()
        else:
            place = self.home
        self._at = place
        return place


class Rover:
    """A taxi, a van: from one place to another, all day and all night."""

    def __init__(self, places: Places, random: Random) -> None:
        self._places = places
        self._random = random

    def first_place(self) -> Place:
        return self._places.home()

    def leave_at(self, now_s: float) -> float:
        return now_s + self._random.uniform(*ERRAND_S) if now_s > 0.0 else 0.0

    def next_place(self) -> Place:
        return self._places.errand()


def _about(hour: float, random: Random) -> float:
    spread = random.gauss(0.0, SPREAD_HOURS)
    return hour + max(-SPREAD_HOURS_MAX, min(SPREAD_HOURS_MAX, spread))


def _next(hour_of_day: float, now: float, late_max: float) -> float:
    """The first time of this hour that is not over for longer than `late_max`."""
    hours = now // 24.0 * 24.0 + hour_of_day
    if hours - 24.0 > now - late_max:
        return hours - 24.0
    return hours if hours > now - late_max else hours + 24.0
