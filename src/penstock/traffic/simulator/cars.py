"""A car: what it does at crossings and houses, and how it moves in between.

Between two events it moves in a straight line at a constant speed. `lat` and `lon` are where it was at
`since`, in millionths of a degree; `north` and `east` how far it goes in a second; `until` is the time of
the next event. Whoever wants to know where it is lets the events happen that are over (`catch_up`) and
multiplies.

    STANDS --leaves the house--> DRIVES --at a crossing--> DRIVES … --in the goal's road--> ARRIVES --> STANDS
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.traffic.simulator.congestion import Congestion
    from penstock.traffic.simulator.network import Road
    from penstock.traffic.simulator.places import Place
    from penstock.traffic.simulator.routing import Router, Tree
    from penstock.traffic.simulator.trips import Driver

STANDS, DRIVES, ARRIVES = range(3)
NO_ROUTE_YET_S: Final = 0.2
"""Asked again after so long, when the router had no time for a new tree."""


class Car:
    __slots__ = (
        "driver",
        "east",
        "goal",
        "heading",
        "lat",
        "lon",
        "name",
        "north",
        "place",
        "road",
        "since",
        "speed",
        "state",
        "tree",
        "until",
    )

    state: int
    since: float
    until: float
    lat: float
    lon: float
    north: float
    east: float
    speed: float

    def __init__(self, name: str, driver: Driver) -> None:
        self.name = name
        self.driver = driver
        self.place = driver.first_place()
        """Where it stands, or stood last."""
        self.goal: Place | None = None
        self.tree: Tree = []
        self.road = self.place.road
        self.heading = self.road.heading
        self._stop(self.place, 0.0)

    def catch_up(self, now_s: float, router: Router, congestion: Congestion) -> None:
        """All that happened until now, at the times when it happened."""
        while self.until <= now_s:
            if self.state == STANDS:
                self._leave(router, congestion)
            else:
                congestion.leave(self.road)
                if self.state == DRIVES:
                    self._cross(congestion)
                else:
                    assert self.goal is not None
                    self._stop(self.goal, self.until)

    def _leave(self, router: Router, congestion: Congestion) -> None:
        if self.goal is None:
            self.goal = self.driver.next_place()
        tree = router.maybe_tree(self.goal.road.start)
        if tree is None:
            self.until += NO_ROUTE_YET_S
            return
        self.tree = tree
        self.state = DRIVES
        self._enter(self.place.road, self.place.along, 1.0, congestion)

    def _cross(self, congestion: Congestion) -> None:
        road = self.tree[self.road.end]
        if road is not None:
            self._enter(road, 0.0, 1.0, congestion)
            return
        assert self.goal is not None
        assert self.road.end == self.goal.road.start, "a route that ends somewhere else"
        self.state = ARRIVES
        self._enter(self.goal.road, 0.0, self.goal.along, congestion)

    def _enter(self, road: Road, along: float, to: float, congestion: Congestion) -> None:
        """Drives from one share of a road's length to another."""
        self.speed = congestion.enter(road)
        per_second = self.speed / 3.6 / road.length_m
        self.road = road
        self.heading = road.heading
        self.lat, self.lon = _at(road, along)
        self.north, self.east = road.north * per_second, road.east * per_second
        self.since = self.until
        self.until += (to - along) / per_second

    def _stop(self, place: Place, now_s: float) -> None:
        self.state = STANDS
        self.place, self.goal = place, None
        self.lat, self.lon = _at(place.road, place.along)
        self.north = self.east = self.speed = 0.0
        self.since = now_s
        self.until = self.driver.leave_at(now_s)


def _at(road: Road, along: float) -> tuple[float, float]:
    """Such that cutting off what is behind the point rounds."""
    lat, lon = road.lat + road.north * along, road.lon + road.east * along
    return lat + (0.5 if lat >= 0.0 else -0.5), lon + (0.5 if lon >= 0.0 else -0.5)
