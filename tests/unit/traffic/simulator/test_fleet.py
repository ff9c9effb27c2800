"""Cars that make some form of sense: on the streets, on time, at speeds of cars, and the same for a seed."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

import pytest

from penstock.traffic.grid import DEFAULT_GRID, BBox, Grid, Quadrant
from penstock.traffic.simulator.cars import STANDS
from penstock.traffic.simulator.fleet import Fleet
from penstock.traffic.simulator.geometry import METRES_PER_DEGREE, Point, length_m, to_degrees
from penstock.traffic.simulator.network import FREE_KMH, build_network
from penstock.traffic.simulator.pace import STEP_MS, STEP_S
from penstock.traffic.simulator.plan import DOWNTOWN
from penstock.traffic.simulator.river import on_ground
from penstock.traffic.simulator.trips import Commuter, Day
from tests.unit.traffic.simulator.city import city

if TYPE_CHECKING:
    from penstock.traffic.position import Position

EAST = math.cos(math.radians(49.25))


def make_fleet(seed: int = 0, cars: int = 200, rate: float = 1.0, **settings: object) -> Fleet:
    return Fleet(city(), DEFAULT_GRID, Random(seed), cars=cars, rate=rate, **settings)  # type: ignore[arg-type]


def drive(fleet: Fleet, seconds: float) -> list[Position]:
    steps = round(seconds / STEP_S)
    return [position for step in range(steps) for position in fleet.step(STEP_S, 1_000_000 + step * STEP_MS)]


def test_the_same_seed_gives_the_same_positions() -> None:
    assert drive(make_fleet(7, cars=60), 30) == drive(make_fleet(7, cars=60), 30)


def test_another_seed_gives_others() -> None:
    first, second = drive(make_fleet(7, cars=20), 5), drive(make_fleet(8, cars=20), 5)
    assert [(each.lat, each.lon) for each in first] != [(each.lat, each.lon) for each in second]


@pytest.mark.parametrize("rate", [0.3, 1.0, 7.0, 20.0])
def test_every_car_has_its_turn_at_the_same_rate(rate: float) -> None:
    positions = drive(make_fleet(cars=37, rate=rate), 10)
    assert len(positions) == pytest.approx(37 * rate * 10, abs=1)
    turns = Counter(position.car for position in positions)
    assert max(turns.values()) - min(turns.values()) <= 1
    assert len({(position.car, position.ts) for position in positions}) == len(positions)


def test_positions_are_spread_evenly_over_the_steps() -> None:
    fleet = make_fleet(cars=99)
    counts = [len(fleet.step(STEP_S, 0)) for _ in range(200)]
    assert max(counts) - min(counts) <= 1


def test_cars_stay_on_their_streets_and_on_the_map() -> None:
    fleet = make_fleet(cars=60, rate=20.0)
    cars = {car.name: car for car in fleet.cars}
    for step in range(1_500):
        for position in fleet.step(STEP_S, step):
            road = cars[position.car].road if position.speed else cars[position.car].place.road
            start, end = city().points[road.start], city().points[road.end]
            assert beside_m((position.lat, position.lon), start, end) < 0.3
            assert DEFAULT_GRID.contains(position.lat, position.lon)


def beside_m(point: Point, start: Point, end: Point) -> float:
    """How far a point is from a stretch of road."""

    def metres(place: Point) -> Point:
        return place[0] * METRES_PER_DEGREE, place[1] * METRES_PER_DEGREE * EAST

    (py, px), (ay, ax), (by, bx) = metres(point), metres(start), metres(end)
    along = ((px - ax) * (bx - ax) + (py - ay) * (by - ay)) / ((bx - ax) ** 2 + (by - ay) ** 2)
    along = max(0.0, min(1.0, along))
    return math.hypot(px - ax - along * (bx - ax), py - ay - along * (by - ay))


def test_cars_go_as_far_as_their_speed_says() -> None:
    fleet = make_fleet(cars=80, rate=4.0)
    tracks: dict[str, list[Position]] = defaultdict(list)
    for position in drive(fleet, 60):
        tracks[position.car].append(position)
    driving = 0
    for track in tracks.values():
        for before, after in pairwise(track):
            seconds = (after.ts - before.ts) / 1000
            moved = length_m((before.lat, before.lon), (after.lat, after.lon))
            fastest = max(FREE_KMH.values())
            assert before.speed <= fastest
            assert moved <= fastest / 3.6 * seconds + 1.0, "no car jumps"
            if before.speed and before.speed == after.speed and before.heading == after.heading:
                driving += 1
                # Behind a crossing the way may go on in the same direction, at the same speed.
                assert moved <= before.speed / 3.6 * seconds * 1.01 + 1.0
    assert driving > 1_000


def test_headings_are_those_of_the_movement() -> None:
    fleet = make_fleet(cars=50, rate=20.0)
    checked = 0
    last: dict[str, Position] = {}
    for position in drive(fleet, 40):
        before = last.get(position.car)
        if before and before.speed and (before.heading, before.speed) == (position.heading, position.speed):
            north, east = position.lat - before.lat, (position.lon - before.lon) * EAST
            if math.hypot(north, east) > 5e-6:
                turned = math.degrees(math.atan2(east, north)) - position.heading
                assert math.cos(math.radians(turned)) > 0.9
                checked += 1
        last[position.car] = position
    assert checked > 1_000


def inward_share(fleet: Fleet) -> float:
    """Of the commuters on the road, those who get nearer to downtown minus those who get away from it."""
    lat, lon = to_degrees(DEFAULT_GRID.bbox, on_ground(DOWNTOWN))
    votes = [
        1 if (car.lat / 1e6 - lat) * car.north + (car.lon / 1e6 - lon) * car.east * EAST**2 < 0 else -1
        for car in fleet.cars
        if car.state != STANDS and isinstance(car.driver, Commuter)
    ]
    assert len(votes) > 50
    return sum(votes) / len(votes)


def test_rush_hours_go_to_the_city_in_the_morning_and_back_in_the_evening() -> None:
    fleet = make_fleet(cars=400, rate=0.5, day=Day(1_200.0))
    drive_coarsely(fleet, fleet.day.seconds(9.0))
    assert inward_share(fleet) > 0.3
    drive_coarsely(fleet, fleet.day.seconds(14.5))
    at_work = sum(car.state == STANDS and at_home(car.driver, car.place) is False for car in fleet.cars)
    assert at_work > 150, "most people are at work"
    drive_coarsely(fleet, fleet.day.seconds(18.0))
    assert inward_share(fleet) < -0.3


def drive_coarsely(fleet: Fleet, until_s: float) -> None:
    while fleet.now_s < until_s:
        fleet.step(2.0, 0)


def at_home(driver: object, place: object) -> bool | None:
    return place is driver.home if isinstance(driver, Commuter) else None


def test_bridges_are_where_the_city_meets() -> None:
    fleet = make_fleet(cars=800, rate=1.0)
    drive_coarsely(fleet, 100.0)
    on_roads = [car.road for car in fleet.cars if car.state != STANDS]
    bridges = [road for road in on_roads if road.kind == "bridge"]
    share_of_roads = sum(road.kind == "bridge" for road in city().roads) / len(city().roads)
    assert len(bridges) / len(on_roads) > 5 * share_of_roads


def test_cars_of_some_quadrants_never_leave_them() -> None:
    quadrants = {Quadrant(0, 0), Quadrant(1, 1)}
    network = city().restricted(DEFAULT_GRID, quadrants)
    fleet = Fleet(network, DEFAULT_GRID, Random(3), cars=100, rate=2.0)
    found = {DEFAULT_GRID.quadrant(position.lat, position.lon) for position in drive(fleet, 60)}
    assert found == quadrants


def test_a_city_across_the_date_line() -> None:
    grid = Grid(BBox(west=179.95, south=-17.05, east=-179.95, north=-16.95), rows=1, cols=2)
    fleet = Fleet(build_network(grid), grid, Random(0), cars=100, rate=1.0)
    positions = drive(fleet, 30)
    assert all(grid.contains(position.lat, position.lon) for position in positions)
    assert {position.lon > 0 for position in positions} == {True, False}


def test_no_car_is_lost_from_the_roads() -> None:
    fleet = make_fleet(cars=150)
    drive_coarsely(fleet, 200.0)
    driving = Counter(car.road.index for car in fleet.cars if car.state != STANDS)
    assert {
        road.index: fleet.congestion.cars_on(road) for road in city().roads if driving[road.index]
    } == dict(driving)
    assert sum(fleet.congestion.cars_on(road) for road in city().roads) == driving.total()
