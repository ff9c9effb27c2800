from __future__ import annotations

from penstock.groups.alarms import Alarms


def test_due_keys_come_in_order_and_once() -> None:
    alarms: Alarms[str] = Alarms()
    alarms.set("late", 30)
    alarms.set("early", 10)
    alarms.set("moved", 25)
    alarms.set("moved", 20)
    assert alarms.next_ms() == 10
    assert alarms.take_due(9) == []
    assert alarms.take_due(20) == ["early", "moved"]
    assert alarms.take_due(100) == ["late"]
    assert alarms.next_ms() is None


def test_a_later_deadline_does_not_replace_an_earlier_one() -> None:
    alarms: Alarms[str] = Alarms()
    alarms.set("a", 10)
    alarms.set("a", 50)
    assert alarms.take_due(10) == ["a"]
    assert alarms.take_due(50) == []


def test_forgotten_keys_do_not_come_up() -> None:
    alarms: Alarms[str] = Alarms()
    alarms.set("a", 10)
    alarms.forget("a")
    alarms.forget("unknown")
    assert alarms.take_due(10) == []
    alarms.set("a", 20)
    assert alarms.take_due(20) == ["a"]


def test_entries_that_were_forgotten_or_overtaken_do_not_pile_up() -> None:
    alarms: Alarms[int] = Alarms()
    alarms.set(-1, 5)
    for key in range(10_000):
        alarms.set(key, 1_000_000 + key)
        alarms.forget(key)
    for deadline_ms in range(1_000_000, 990_000, -1):
        alarms.set(-2, deadline_ms)
    assert len(alarms) < 200
    assert alarms.take_due(2_000_000) == [-1, -2]
