"""Seeds, one after the other, and what there is to say of one that fails."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import pytest

from tests.sim.shrink import kind_of, shrink

if TYPE_CHECKING:
    from tests.sim.faults import Fault
    from tests.sim.world import World

FIRST_SEED = int(os.environ.get("PENSTOCK_SIM_FIRST_SEED", "1"))
SEEDS = int(os.environ.get("PENSTOCK_SIM_SEEDS", "120"))
SECONDS = float(os.environ.get("PENSTOCK_SIM_SECONDS", "inf"))
"""Processor time that the seeds of one simulation may take together; each block tries one in any case."""
BLOCKS = min(SEEDS, 40)
"""Of seeds, each a test of its own, so that several processes can share them."""
KEPT_FAULTS = os.environ.get("PENSTOCK_SIM_FAULTS")
"""The numbers of those that shall happen, separated by commas; otherwise all."""
SHRINK_SECONDS = 60.0
TRACE_LINES = 120


class History(Protocol):
    world: World
    faults: list[Fault]

    def run(self) -> None: ...


class NewHistory(Protocol):
    def __call__(
        self, seed: int, faults: Sequence[Fault] | None = None, *, is_detailed: bool = False
    ) -> History: ...


def seeds_of(block: int) -> range:
    return range(FIRST_SEED + block * SEEDS // BLOCKS, FIRST_SEED + (block + 1) * SEEDS // BLOCKS)


def check_seeds(block: int, check: Callable[[int], None], file: str) -> None:
    """Of histories that are nothing but a seed."""
    began = time.process_time()
    for seed in seeds_of(block):
        if seed > seeds_of(block)[0] and time.process_time() - began > SECONDS / BLOCKS:
            return
        try:
            check(seed)
        except Exception as error:  # whatever it is, the seed belongs to it
            again = f"PENSTOCK_SIM_FIRST_SEED={seed} PENSTOCK_SIM_SEEDS=1 pytest {file}"
            pytest.fail(f"seed {seed}: {error!r}\nagain: {again}", pytrace=True)


def check_block(block: int, new_history: NewHistory, file: str) -> None:
    began = time.process_time()
    for seed in seeds_of(block):
        if seed > seeds_of(block)[0] and time.process_time() - began > SECONDS / BLOCKS:
            return
        history = new_history(seed, kept_faults(new_history, seed))
        try:
            history.run()
        except Exception as error:  # whatever it is, the seed and the history belong to it
            pytest.fail(report(seed, history, error, new_history, file), pytrace=True)


def kept_faults(new_history: NewHistory, seed: int) -> list[Fault] | None:
    if KEPT_FAULTS is None:
        return None
    numbers = {int(number) for number in KEPT_FAULTS.split(",") if number}
    return [fault for fault in new_history(seed).faults if fault.number in numbers]


def report(seed: int, history: History, error: Exception, new_history: NewHistory, file: str) -> str:
    """The smallest history that fails like this one, and how to see it again."""
    smallest = smallest_history(seed, history.faults, error, new_history, SHRINK_SECONDS)
    numbers = ",".join(str(fault.number) for fault in smallest.faults)
    command = f"PENSTOCK_SIM_FIRST_SEED={seed} PENSTOCK_SIM_SEEDS=1 pytest {file}"
    return "\n".join(
        [
            f"seed {seed}: {error!r}",
            *smallest.world.trace[-TRACE_LINES:],
            f"{len(smallest.faults)} of {len(history.faults)} faults are needed:",
            *map(str, smallest.faults),
            f"again: {command}",
            f"with these faults alone: PENSTOCK_SIM_FAULTS={numbers} {command}",
        ]
    )


def smallest_history(
    seed: int, faults: Sequence[Fault], error: Exception, new_history: NewHistory, seconds_max: float
) -> History:
    """It has been run, and tells all that happened."""
    fails = failure_of(seed, new_history)
    needed = shrink(faults, fails, kind_of(error), seconds_max)
    history = new_history(seed, needed, is_detailed=True)
    failure_in(history)
    return history


def failure_of(seed: int, new_history: NewHistory) -> Callable[[list[Fault]], str | None]:
    return lambda faults: failure_in(new_history(seed, faults))


def failure_in(history: History) -> str | None:
    try:
        history.run()
    except Exception as error:  # of any kind, which is compared
        return kind_of(error)
    return None
