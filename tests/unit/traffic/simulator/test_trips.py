"""When people leave, and where they go."""

from __future__ import annotations

from random import Random

import pytest

from penstock.traffic.grid import DEFAULT_GRID
from penstock.traffic.simulator.places import Places
from penstock.traffic.simulator.trips import STAY_S_MIN, Commuter, Day, Rover
from tests.unit.traffic.simulator.city import city

DAY = Day(length_s=240.0, start_hour=6.0)
"""Ten seconds are an hour."""


def make_places(seed: int = 0) -> Places:
    return Places(city(), DEFAULT_GRID, city().parts[0], Random(seed))


def make_commuter() -> Commuter:
    commuter = Commuter(make_places(), DAY, Random(1))
    commuter.leaves_home_hour, commuter.leaves_work_hour = 7.0, 17.0
    return commuter


def test_hours_of_a_day_that_runs_faster() -> None:
    assert DAY.hours(0.0) == 6.0
    assert DAY.hours(25.0) == 8.5
    assert DAY.seconds(8.5) == 25.0
    assert DAY.clock(25.0) == "08:30"
    assert DAY.clock(190.0) == "01:00"


def test_a_day_of_a_commuter() -> None:
    commuter = make_commuter()
    assert commuter.first_place() is commuter.home
    assert commuter.leave_at(0.0) == pytest.approx(10.0), "at seven"
    assert commuter.next_place() is commuter.work
    assert commuter.leave_at(40.0) == pytest.approx(110.0), "at seventeen"
    place = commuter.next_place()
    while place is not commuter.home:  # an errand on the way
        assert 110.0 < commuter.leave_at(110.0) < 150.0
        place = commuter.next_place()
    assert commuter.leave_at(150.0) == pytest.approx(250.0), "at seven the next morning"


def test_who_comes_late_to_work_stays_for_a_moment() -> None:
    commuter = make_commuter()
    commuter.next_place()
    assert commuter.leave_at(130.0) == 130.0 + STAY_S_MIN, "at nineteen"
    assert commuter.leave_at(200.0) == 200.0 + STAY_S_MIN, "at two in the night"


def test_who_comes_home_late_leaves_in_the_morning_all_the_same() -> None:
    commuter = make_commuter()
    assert commuter.leave_at(245.0) == 251.0, "home at half past six, and leaves after a moment"
    assert commuter.leave_at(265.0) == 265.0 + STAY_S_MIN, "home at half past eight"
    assert commuter.leave_at(300.0) == pytest.approx(490.0), "home at noon: tomorrow is another day"


def test_rovers_never_stay_for_long() -> None:
    rover = Rover(make_places(), Random(2))
    assert rover.leave_at(0.0) == 0.0
    goals = {rover.next_place() for _ in range(20)}
    assert len(goals) > 10
    assert all(100.0 < rover.leave_at(100.0) <= 120.0 for _ in range(20))


def test_most_work_is_downtown_and_most_homes_are_not() -> None:
    places = make_places()
    homes = [places.home() for _ in range(300)]
    works = [places.work(home) for home in homes]

    def spread(found: list) -> float:
        middle = sum(place.road.lat for place in found) / len(found)
        return sum(abs(place.road.lat - middle) for place in found) / len(found)

    assert spread(works) < 0.75 * spread(homes)


@pytest.mark.parametrize("seed", range(3))
def test_nobody_lives_on_a_bridge(seed: int) -> None:
    places = make_places(seed)
    found = [places.home() for _ in range(200)] + [places.errand() for _ in range(200)]
    assert {place.road.kind for place in found} <= {"street", "arterial", "avenue"}
    assert all(0.0 < place.along < 1.0 for place in found)
