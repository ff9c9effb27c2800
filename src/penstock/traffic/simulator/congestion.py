"""How many cars are on each road, how slow that makes the next one, and how long each road takes just now.

The Bureau of Public Roads' curve: free speed divided by 1 + 0.15 (load / capacity)^4. A fleet of any size
stands for the traffic of the whole city: capacities are shares of the fleet, by length and lanes, so that
20,000 cars make the same rush hour as 5,000. A road takes a few cars at full speed however small the fleet
is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from penstock.traffic.simulator.network import LANES

if TYPE_CHECKING:
    from penstock.traffic.simulator.network import Road

FLEETS_PER_NETWORK: Final = 8.0
"""So many fleets would fill all roads to their capacity."""
CAPACITY_MIN: Final = 4.0
SLOWING, POWER = 0.15, 4
CRAWL_KMH: Final = 9.0
"""Even in a jam cars move, so that every jam ends."""


class Congestion:
    """The number of cars on each road, by the road's index. Entering and leaving come in pairs."""

    def __init__(self, roads: Sequence[Road], cars: int) -> None:
        room = [road.length_m * LANES[road.kind] for road in roads]
        scale = cars * FLEETS_PER_NETWORK / (sum(room) or 1.0)
        self._capacity = [max(metres * scale, CAPACITY_MIN) for metres in room]
        self._cars = [0] * len(room)
        self.seconds = [road.free_s for road in roads]
        """What each road takes now, for those who choose a route."""

    def enter(self, road: Road) -> float:
        """The speed in km/h at which a car that enters now will drive along the road."""
        index = road.index
        others = self._cars[index]
        self._cars[index] = others + 1
        speed = speed_kmh(road.free_kmh, others / self._capacity[index])
        self.seconds[index] = road.length_m * 3.6 / speed
        return speed

    def leave(self, road: Road) -> None:
        index = road.index
        assert self._cars[index] > 0, "more cars left a road than entered it"
        self._cars[index] -= 1
        load = self._cars[index] / self._capacity[index]
        self.seconds[index] = road.length_m * 3.6 / speed_kmh(road.free_kmh, load)

    def cars_on(self, road: Road) -> int:
        return self._cars[road.index]


def speed_kmh(free_kmh: float, load: float) -> float:
    """`load` is the number of cars as a share of the road's capacity."""
    return round(max(free_kmh / (1.0 + SLOWING * load**POWER), CRAWL_KMH), 1)
