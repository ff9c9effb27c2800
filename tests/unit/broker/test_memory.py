from __future__ import annotations

from penstock.broker.memory import MemoryBudget


def test_waiters_are_woken_in_order_and_only_while_there_is_room() -> None:
    budget = MemoryBudget(100)
    budget.charge(150)
    assert budget.is_exhausted
    assert budget.free_bytes == 0
    woken: list[str] = []

    def take(name: str, size: int) -> None:
        woken.append(name)
        budget.charge(size)

    budget.when_free(lambda: take("a", 20), 0)
    budget.when_free(lambda: take("b", 60), 0)
    budget.when_free(lambda: take("c", 1), 0)
    budget.release(50)
    assert woken == []
    budget.release(40)
    assert woken == ["a", "b"]
    assert budget.used_bytes == 140
    budget.release(140)
    assert woken == ["a", "b", "c"]
    assert budget.used_bytes == 1


def test_a_release_inside_a_wake_up_does_not_wake_twice() -> None:
    budget = MemoryBudget(10)
    budget.charge(10)
    woken: list[int] = []

    def wake(number: int) -> None:
        woken.append(number)
        budget.charge(5)
        budget.release(5)

    for number in range(3):
        budget.when_free(lambda number=number: wake(number), 0)
    budget.release(10)
    assert sorted(woken) == [0, 1, 2]


def test_if_only_the_waiting_hold_memory_the_first_goes_on() -> None:
    budget = MemoryBudget(100)
    budget.charge(60)
    budget.charge(60)
    budget.charge(10)
    woken: list[str] = []
    assert budget.must_wait(60)
    budget.when_free(lambda: woken.append("a"), 60)
    assert budget.must_wait(60)
    budget.when_free(lambda: woken.append("b"), 60)
    assert not budget.must_wait(10), "all others wait"
    budget.release(10)
    assert woken == ["a"]
    budget.release(60)
    assert woken == ["a", "b"]
