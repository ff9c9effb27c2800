"""The simulation against a client that writes into a list: what it says it wrote is what was written."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pytest

from penstock.client.errors import DisconnectedServerError, TopicClusterDoesNotExistError
from penstock.traffic.grid import DEFAULT_GRID, Quadrant
from penstock.traffic.simulator.run import STEPS_PER_WRITE, Progress, Simulation, Stop
from penstock.traffic.simulator.settings import Parts, Settings, make_parts
from tests.unit.traffic.simulator.city import city

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.traffic.position import Position


class ListClient:
    def __init__(self) -> None:
        self.positions: list[Position] = []
        self.raw: list[tuple[str, Any]] = []
        self.before_write: Callable[[int], None] = lambda _: None
        self.writes = 0

    def write_many(self, positions: Iterable[Position]) -> None:
        self.writes += 1
        self.before_write(self.writes)
        self.positions += positions

    def write_raw(self, topic: str, records: Iterable[tuple[str, Any]]) -> None:
        self.raw += [(topic, value) for _, value in records]


class Run:
    """A simulation of some tenths of a second, on a real clock."""

    def __init__(self, **settings: Any) -> None:
        self.client = ListClient()
        self.parts: Parts = make_parts(
            Settings(**{"cars": 40, "rate": 20.0} | settings), city(), DEFAULT_GRID
        )
        self.stop = Stop()
        self.progress: list[Progress] = []
        self.failures: list[str] = []
        self.simulation = Simulation(
            self.client,  # type: ignore[arg-type]
            self.parts,
            self.stop,
            progress=self.progress.append,
            failed=self.failures.append,
        )

    def run(self, seconds: float | None) -> dict[str, Any]:
        self.simulation.run(seconds)
        return self.parts.truth.as_dict()


def test_the_truth_is_what_was_written() -> None:
    run = Run(duplicates=0.2, broken=0.1)
    truth = run.run(0.3)
    seen = Counter((position.car, position.ts) for position in run.client.positions)
    assert truth["good"] == len(seen)
    assert truth["duplicates"] == seen.total() - len(seen) > 0
    assert truth["broken"] == len(run.client.raw) > 0
    assert truth["late"] == truth["unknown"] == 0
    assert truth["sent"] == len(run.client.positions) + len(run.client.raw)
    assert sum(truth["cells"].values()) == truth["good"]


def test_it_ends_after_its_time_with_as_many_positions_as_were_asked_for() -> None:
    run = Run()
    truth = run.run(0.5)
    if not run.simulation.left_out_s:  # on a machine that stood still for a second there are fewer
        assert truth["good"] == 40 * 20 * 0.5
    assert run.failures == []


def test_a_write_that_fails_is_unknown_and_the_cars_go_on() -> None:
    run = Run()

    def fail(write: int) -> None:
        if write in (2, 3):
            raise DisconnectedServerError("nobody answers")

    run.client.before_write = fail
    truth = run.run(1.0)
    assert truth["unknown"] >= 2 * STEPS_PER_WRITE * 40
    assert truth["good"] == len(run.client.positions)
    assert truth["sent"] == truth["good"] > 40
    assert len(run.failures) == 2
    assert all(each.endswith("positions may be written or not: nobody answers") for each in run.failures)


def test_what_is_asked_to_stop_ends_after_the_step() -> None:
    run = Run()

    def stop(write: int) -> None:
        if write == 3:
            run.stop.ask()

    run.client.before_write = stop
    truth = run.run(None)
    assert run.client.writes == 3
    assert truth["good"] == len(run.client.positions) >= 40 + 2 * STEPS_PER_WRITE * 40
    assert truth["unknown"] == 0


def test_who_asks_twice_does_not_wait_for_brokers() -> None:
    run = Run()

    def stop(write: int) -> None:
        if write == 3:
            run.stop.ask()
            run.stop.ask()

    run.client.before_write = stop
    truth = run.run(None)
    assert truth["good"] == len(run.client.positions) >= 40 + STEPS_PER_WRITE * 40
    assert truth["unknown"] >= STEPS_PER_WRITE * 40
    assert run.failures == [f"{truth['unknown']} positions may be written or not: stopped"]


def test_what_is_asked_to_stop_before_it_begins_writes_nothing() -> None:
    run = Run()
    run.stop.ask()
    assert run.run(None)["sent"] == 0
    assert run.client.writes == 0


def test_steps_that_are_overdue_are_written_together_with_their_own_timestamps() -> None:
    run = Run()

    def wait(write: int) -> None:
        if write == 2:
            time.sleep(0.3)

    run.client.before_write = wait
    truth = run.run(0.6)
    assert run.client.writes < 10
    assert truth["good"] == len({(each.car, each.ts) for each in run.client.positions})
    stamps = [position.ts for position in run.client.positions if position.car == "car-0-0"]
    assert stamps == sorted(stamps)
    if not run.simulation.left_out_s:
        assert truth["good"] == 40 * 20 * 0.6


def test_asking_twice_between_two_writes_is_asking_once() -> None:
    stop = Stop()
    stop.ask()
    stop.ask()
    assert stop.asked


def test_the_collector_is_as_it_was_before() -> None:
    before = gc.get_threshold()
    Run().run(0.1)
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("quadrant", [Quadrant(2, 0), Quadrant(0, 2)])
def test_a_quadrant_that_the_map_does_not_have(quadrant: Quadrant) -> None:
    with pytest.raises(TopicClusterDoesNotExistError, match=f"no quadrant r{quadrant.row}.c{quadrant.col}"):
        make_parts(Settings(cars=1, quadrants=(quadrant,)), city(), DEFAULT_GRID)


def test_cars_drive_the_same_with_and_without_faults() -> None:
    parts = [
        make_parts(Settings(cars=30, duplicates=share, broken=share), city(), DEFAULT_GRID)
        for share in (0.0, 0.5)
    ]
    with_faults: list[list[Position]] = [[], []]
    for found, each in zip(with_faults, parts, strict=True):
        for step in range(100):
            good = each.fleet.step(0.05, step)
            found += good
            each.faults.duplicates(good, step)
            each.faults.broken(good)
    assert with_faults[0] == with_faults[1]
