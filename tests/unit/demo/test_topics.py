"""What is found on the demo's topics, record by record."""

from __future__ import annotations

from penstock.demo.plan import OWN_CAR, SEED
from penstock.demo.topics import CellTally, LogTally
from penstock.demo.verdict import Cells, Log
from penstock.traffic.grid import DEFAULT_GRID
from penstock.traffic.heat import TOTALS_KEY, HeatCell, Totals
from penstock.traffic.position import Position
from penstock.traffic.simulator.network import build_network
from penstock.traffic.simulator.settings import Settings, make_parts


def position(car: str, ts: int) -> bytes:
    return Position(car, 49.25, -123.1, ts=ts).to_json()


def test_positions_of_own_cars_and_of_others_and_what_is_there_twice() -> None:
    tally = LogTally()
    tally.begin_topic()
    for car, ts in (("car-0-1", 1), ("car-0-1", 2), ("car-0-2", 1), ("car-0-1", 1), ("taxi", 1), ("taxi", 1)):
        tally.take(car.encode(), position(car, ts))
    for value in (None, b"{", b"[]", b'{"car": "x"}', b'{"car": 1, "ts": {}}'):
        tally.take(None, value)
    tally.begin_topic()
    tally.take(b"car-0-3", position("car-0-3", 1))
    assert tally.log() == Log(records=12, repeated=2, cars=5, cars_repeated=1)


def test_the_simulator_calls_its_cars_so() -> None:
    network = build_network(DEFAULT_GRID)
    for seed, is_own in ((SEED, True), (SEED + 1, False)):
        cars = make_parts(Settings(cars=3, seed=seed), network, DEFAULT_GRID).fleet.cars
        assert {OWN_CAR.fullmatch(car.name) is not None for car in cars} == {is_own}


def test_cells_add_up_with_the_newest_of_each_and_up_to_the_last_totals() -> None:
    tally = CellTally()
    first, second = (HeatCell(0, col, 0, 5_000, 3, 10.0) for col in (0, 1))
    newer = HeatCell(0, 0, 0, 5_000, 7, 10.0)
    for cell in (first, second, newer):
        tally.take(cell.key, cell.to_json())
    tally.take(TOTALS_KEY, Totals(sent=10, counted=10).to_json())
    later = HeatCell(0, 5, 5_000, 10_000, 4, 1.0)
    for key, value in ((b"x", b"{"), (first.key, None), (later.key, later.to_json())):
        tally.take(key, value)
    assert tally.cells() == Cells(shown=10, counted=10)
