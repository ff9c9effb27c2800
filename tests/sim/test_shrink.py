from __future__ import annotations

import pytest

from tests.sim.checking import failure_in, report, smallest_history
from tests.sim.faults import Fault
from tests.sim.replication_history import ReplicationHistory
from tests.sim.shrink import kind_of, shrink
from tests.sim.test_replication_mutations import SEEDS_MAX, does_not_check_leader_epochs


def test_only_the_faults_that_are_needed_remain() -> None:
    faults = [Fault(number, number * 10, "crash", number) for number in range(50)]
    needed = {3, 17, 40}

    def fails(some: list[Fault]) -> str | None:
        return "lost" if needed <= {fault.number for fault in some} else None

    found = shrink(faults, fails, "lost", seconds_max=60.0)
    assert [fault.number for fault in found] == sorted(needed)


def test_another_failure_is_not_the_same() -> None:
    faults = [Fault(number, 0, "crash", number) for number in range(4)]
    found = shrink(faults, lambda some: "lost" if len(some) >= 3 else "stuck", "lost", seconds_max=60.0)
    assert len(found) == 3


def test_without_time_everything_remains() -> None:
    faults = [Fault(number, 0, "crash", number) for number in range(4)]
    assert shrink(faults, lambda some: "lost", "lost", seconds_max=-1.0) == faults


def test_a_kind_of_failure_is_the_same_for_every_node_and_offset() -> None:
    one = AssertionError("1 (partition 0) lacks offset 36")
    other = AssertionError("2 (partition 1) lacks offset 5")
    assert kind_of(one) == kind_of(other) == "AssertionError: lacks offset"


def test_a_broken_rule_is_shown_with_few_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    does_not_check_leader_epochs(monkeypatch)
    seed, history, error = first_failure()
    smallest = smallest_history(seed, history.faults, error, ReplicationHistory, seconds_max=60.0)
    assert len(smallest.faults) <= len(history.faults) // 2
    assert failure_in(ReplicationHistory(seed, smallest.faults)) == kind_of(error)
    text = report(seed, smallest, error, ReplicationHistory, "tests/sim/test_replication.py")
    assert f"PENSTOCK_SIM_FIRST_SEED={seed} PENSTOCK_SIM_SEEDS=1 pytest tests/sim/test_replication.py" in text
    assert smallest.world.trace[-1] in text


def first_failure() -> tuple[int, ReplicationHistory, Exception]:
    for seed in range(1, SEEDS_MAX + 1):
        history = ReplicationHistory(seed)
        try:
            history.run()
        except Exception as error:
            return seed, history, error
    pytest.fail("the broken rule was not noticed")


def test_a_history_is_the_same_every_time() -> None:
    histories = [ReplicationHistory(7), ReplicationHistory(7)]
    for history in histories:
        history.run()
    assert histories[0].world.trace == histories[1].world.trace
