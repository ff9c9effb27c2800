"""Full roads are slow roads."""

from __future__ import annotations

import pytest

from penstock.traffic.simulator.congestion import CRAWL_KMH, Congestion, speed_kmh
from tests.unit.traffic.simulator.city import city


def test_an_empty_road_is_driven_at_full_speed() -> None:
    congestion = Congestion(city().roads, cars=1)
    for road in city().roads[:100]:
        assert congestion.enter(road) == road.free_kmh


def test_every_car_makes_the_next_one_slower_but_never_stops_it() -> None:
    congestion = Congestion(city().roads, cars=10_000)
    road = city().roads[0]
    speeds = [congestion.enter(road) for _ in range(2_000)]
    assert speeds == sorted(speeds, reverse=True)
    assert speeds[0] == road.free_kmh
    assert speeds[-1] == CRAWL_KMH
    assert congestion.seconds[road.index] == pytest.approx(road.length_m * 3.6 / CRAWL_KMH)


def test_a_road_is_fast_again_when_the_cars_have_left() -> None:
    congestion = Congestion(city().roads, cars=10)
    road = city().roads[7]
    for _ in range(50):
        congestion.enter(road)
    assert congestion.cars_on(road) == 50
    for _ in range(50):
        congestion.leave(road)
    assert congestion.cars_on(road) == 0
    assert congestion.seconds[road.index] == pytest.approx(road.free_s)
    with pytest.raises(AssertionError, match="more cars left"):
        congestion.leave(road)


def test_the_curve() -> None:
    assert speed_kmh(60.0, 0.0) == 60.0
    assert speed_kmh(60.0, 1.0) == pytest.approx(60.0 / 1.15, abs=0.05)
    assert speed_kmh(60.0, 2.0) == pytest.approx(60.0 / 3.4, abs=0.05)
    assert speed_kmh(60.0, 50.0) == CRAWL_KMH


def test_a_fleet_of_any_size_makes_the_same_rush_hour() -> None:
    road = max(city().roads, key=lambda road: road.length_m)
    small, large = Congestion(city().roads, cars=20_000), Congestion(city().roads, cars=200_000)
    shares = []
    for congestion, cars in ((small, 100), (large, 1_000)):
        for _ in range(cars):
            speed = congestion.enter(road)
        shares.append(speed)
    assert shares[0] == pytest.approx(shares[1], rel=0.05)
