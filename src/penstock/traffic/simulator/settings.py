"""What a simulation is asked for, and what is made of it before the first car drives."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from penstock.client.errors import TopicClusterDoesNotExistError
from penstock.traffic.simulator.faults import Faults
from penstock.traffic.simulator.fleet import Fleet
from penstock.traffic.simulator.trips import DAY_S, Day
from penstock.traffic.simulator.truth import Truth

if TYPE_CHECKING:
    from penstock.traffic.grid import Grid, Quadrant
    from penstock.traffic.simulator.network import Network


@dataclass(frozen=True, slots=True)
class Settings:
    cars: int
    rate: float = 1.0
    """Positions per car and second."""
    seed: int = 0
    """Cars have it in their names: those of two simulators side by side must not be the same."""
    day_s: float = DAY_S
    duplicates: float = 0.0
    late: float = 0.0
    broken: float = 0.0
    """Shares of the good positions."""
    quadrants: tuple[Quadrant, ...] = ()
    """Where cars live and drive; everywhere, if none is named."""
    with_cells: bool = True
    """Whether the truth has them."""


@dataclass(frozen=True, slots=True)
class Parts:
    fleet: Fleet
    faults: Faults
    truth: Truth


def make_parts(settings: Settings, network: Network, grid: Grid) -> Parts:
    """TopicClusterDoesNotExistError if there is no street in the quadrants, or no such quadrant."""
    for quadrant in settings.quadrants:
        if quadrant.row >= grid.rows or quadrant.col >= grid.cols:
            raise TopicClusterDoesNotExistError(f"the map has no quadrant r{quadrant.row}.c{quadrant.col}")
    if settings.quadrants:
        network = network.restricted(grid, settings.quadrants)
    if not network.parts:
        raise TopicClusterDoesNotExistError("there are no streets in these quadrants")
    random = Random(settings.seed)  # noqa: S311 - the same cars again for the same seed
    fleet = Fleet(
        network,
        grid,
        random,
        cars=settings.cars,
        rate=settings.rate,
        names=f"car-{settings.seed}",
        day=Day(settings.day_s),
    )
    faults = Faults(
        grid,
        Random(settings.seed),  # noqa: S311 - its own, so that cars drive the same with and without faults
        duplicates=settings.duplicates,
        late=settings.late,
        broken=settings.broken,
    )
    return Parts(fleet, faults, Truth(grid, with_cells=settings.with_cells))
