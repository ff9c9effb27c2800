"""Where people live, work and spend their evenings: houses along the streets of a part of the city.

Homes are away from the centre, work is downtown and in two smaller centres, the rest is everywhere. Few
crossings are destinations, and many houses are near each of them: that keeps the number of routes small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from penstock.traffic.simulator.geometry import Point, length_m
from penstock.traffic.simulator.network import MICRO
from penstock.traffic.simulator.plan import ARTERIAL, DOWNTOWN, STREET
from penstock.traffic.simulator.river import on_ground

if TYPE_CHECKING:
    from penstock.traffic.grid import Grid
    from penstock.traffic.simulator.network import Network, Road

HOME_CROSSINGS, WORK_CROSSINGS, ERRAND_CROSSINGS = 400, 70, 60
CENTRES: Final = ((DOWNTOWN, 0.10, 1.0), ((0.20, 0.36), 0.05, 0.35), ((0.74, 0.34), 0.06, 0.35))
"""Where on the plan, how wide, how busy."""
QUIET_HOME, QUIET_WORK = 0.18, 0.004
WORK_OFFERS: Final = 4


@dataclass(frozen=True, slots=True)
class Place:
    """A house: on this road, so far along it (0 to 1). One drives there over the road's start."""

    road: Road
    along: float


class Places:
    """Of one part of the network."""

    def __init__(self, network: Network, grid: Grid, crossings: Sequence[int], random: Random) -> None:
        self._random = random
        self._leaving = network.leaving()
        box = grid.bbox
        spots = [
            ((lon - box.west) / box.width, (lat - box.south) / box.height)
            for lat, lon in (network.points[crossing] for crossing in crossings)
        ]
        self._homes = _sample(random, crossings, [_home(spot) for spot in spots], HOME_CROSSINGS)
        self._works = _sample(random, crossings, [_work(spot) for spot in spots], WORK_CROSSINGS)
        self._errands = _sample(random, crossings, [1.0] * len(spots), ERRAND_CROSSINGS)

    def home(self) -> Place:
        return self._house(self._homes)

    def work(self, home: Place) -> Place:
        """The nearest of a few offers."""
        offers = [self._house(self._works) for _ in range(WORK_OFFERS)]
        return min(offers, key=lambda offer: _apart(offer, home))

    def errand(self) -> Place:
        return self._house(self._errands)

    def _house(self, crossings: Sequence[int]) -> Place:
        random = self._random
        roads = self._leaving[crossings[int(random.random() * len(crossings))]]
        quiet = [road for road in roads if road.kind in (STREET, ARTERIAL)] or roads
        return Place(quiet[int(random.random() * len(quiet))], 0.1 + 0.8 * random.random())


def _sample(random: Random, crossings: Sequence[int], weights: list[float], count: int) -> list[int]:
    """With repetitions, so that a crossing of much weight has many houses."""
    return random.choices(crossings, weights, k=count)


def _home(spot: Point) -> float:
    """A wide ring around downtown, and fewer people further out."""
    away = _distance(spot, on_ground(DOWNTOWN))
    return QUIET_HOME + min(away / 0.15, 1.0) ** 2 * math.exp(-((away / 0.32) ** 2))


def _work(spot: Point) -> float:
    busy = (
        weight * math.exp(-((_distance(spot, on_ground(centre)) / width) ** 2))
        for centre, width, weight in CENTRES
    )
    return QUIET_WORK + sum(busy)


def _apart(a: Place, b: Place) -> float:
    first, second = ((place.road.lat / MICRO, place.road.lon / MICRO) for place in (a, b))
    return length_m(first, second)


def _distance(a: Point, b: Point) -> float:
    return math.hypot(a[0] - b[0], a[1] - b[1])
