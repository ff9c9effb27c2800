"""All cars, and the positions that they tell.

Cars take turns: positions are due one after the other, evenly spread over time, and every car has its turn
again after the same number of positions. A car is looked at only when it has its turn, which is what makes
tens of thousands of positions a second possible. The fleet knows no clock and no source of chance but those
that it is given: the same random source and the same steps give the same positions.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from penstock.traffic.position import Position
from penstock.traffic.simulator.cars import Car
from penstock.traffic.simulator.congestion import Congestion
from penstock.traffic.simulator.places import Places
from penstock.traffic.simulator.routing import Router
from penstock.traffic.simulator.trips import Commuter, Day, Driver, Rover

if TYPE_CHECKING:
    from penstock.traffic.grid import Grid
    from penstock.traffic.simulator.network import Network

COMMUTERS: Final = 0.7
TREES_PER_STEP: Final = 2
"""A search for routes takes milliseconds, and a step should not take longer than the time that it is for."""
REFRESH_S: Final = 0.4
"""How often one of the routes in use is looked for again."""

_MICRO: Final = 1e6
_EAST_MAX: Final = 180_000_000
_FULL_TURN: Final = 360_000_000
_ROUNDING: Final = 1e-6


class Fleet:
    def __init__(
        self,
        network: Network,
        grid: Grid,
        random: Random,
        *,
        cars: int,
        rate: float,
        names: str = "car",
        day: Day | None = None,
    ) -> None:
        """`rate` is in positions per car and second; cars are called `names`-0, `names`-1 and so on."""
        self.day = day or Day()
        self.now_s = 0.0
        self.congestion = Congestion(network.roads, cars)
        self.router = Router(network, self.congestion.seconds)
        parts = [Places(network, grid, part, random) for part in network.parts]
        sizes = [len(part) for part in network.parts]
        self.cars = [
            Car(f"{names}-{number}", self._driver(random.choices(parts, sizes)[0], random))
            for number in range(cars)
        ]
        self._positions_per_s = cars * rate
        self._owed = 0.0
        self._turn = 0
        self._refresh_in_s = REFRESH_S

    def step(self, seconds: float, ts: int) -> list[Position]:
        """Time goes on by so much: the positions that became due, no car twice, with this timestamp."""
        self.now_s = now = self.now_s + seconds
        self._plan_routes(seconds)
        router, congestion = self.router, self.congestion
        positions = []
        for car in self._due(seconds):
            if now >= car.until:
                car.catch_up(now, router, congestion)
            passed = now - car.since
            lat, lon = int(car.lat + car.north * passed), int(car.lon + car.east * passed)
            if lon >= _EAST_MAX:
                lon -= _FULL_TURN
            positions.append(Position(car.name, lat / _MICRO, lon / _MICRO, car.speed, car.heading, ts))
        return positions

    def _plan_routes(self, seconds: float) -> None:
        self.router.allow(TREES_PER_STEP)
        self._refresh_in_s -= seconds
        if self._refresh_in_s <= 0.0:
            self._refresh_in_s = REFRESH_S
            self.router.refresh()

    def _due(self, seconds: float) -> list[Car]:
        """Those whose turn it is, in order."""
        cars = self.cars
        self._owed += self._positions_per_s * seconds
        count = min(int(self._owed + _ROUNDING), len(cars))
        self._owed -= count
        start, end = self._turn, self._turn + count
        self._turn = end % len(cars)
        return cars[start:end] + cars[: max(0, end - len(cars))]

    def _driver(self, places: Places, random: Random) -> Driver:
        if random.random() < COMMUTERS:
            return Commuter(places, self.day, random)
        return Rover(places, random)
