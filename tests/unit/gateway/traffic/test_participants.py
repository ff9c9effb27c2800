"""Who may read, and how little is remembered of whom."""

from __future__ import annotations

import pytest

from penstock.gateway.traffic.participants import Participants
from penstock.traffic.participation import contribution_value

NOW = 1_000_000_000_000


def participants(window_s: float = 60, cars_max: int = 1_000) -> Participants:
    return Participants(window_s, cars_max)


def test_a_contribution_counts_for_the_window() -> None:
    known = participants()
    assert not known.may_read("a", NOW)
    known.contributed("a", NOW, is_recorded=True)
    assert known.may_read("a", NOW + 60_000)
    assert not known.may_read("a", NOW + 60_001)
    assert not known.may_read("b", NOW)


def test_without_a_window_everybody_may_read_and_nobody_is_remembered() -> None:
    known = participants(0)
    known.contributed("a", NOW, is_recorded=False)
    known.apply(b"b", contribution_value(NOW), NOW)
    assert known.may_read("c", NOW)
    assert not known.is_due("a", NOW)
    assert len(known) == 0


def test_others_are_told_once_per_third_of_a_window() -> None:
    known = participants()
    assert known.is_due("a", NOW)
    assert known.is_due("a", NOW)  # it was not written yet
    known.contributed("a", NOW, is_recorded=True)
    for later in (1, 19_999):
        assert not known.is_due("a", NOW + later)
        known.contributed("a", NOW + later, is_recorded=False)
    assert known.is_due("a", NOW + 20_000)


def test_what_somebody_else_has_written_down() -> None:
    known = participants()
    known.apply(b"a", contribution_value(NOW - 10_000), NOW)
    assert known.may_read("a", NOW + 50_000)
    assert not known.may_read("a", NOW + 50_001)
    assert not known.is_due("a", NOW)
    known.apply(b"a", contribution_value(NOW - 30_000), NOW)  # out of order
    assert known.may_read("a", NOW + 50_000)


def test_a_time_that_lies_ahead_counts_as_now() -> None:
    known = participants()
    known.contributed("b", NOW, is_recorded=True)
    known.apply(b"a", contribution_value(NOW + 10**12), NOW)
    assert known.may_read("a", NOW + 60_000)
    assert not known.may_read("a", NOW + 60_001)
    assert known.may_read("b", NOW)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b'{"ts":1}'),
        (b"", b'{"ts":1}'),
        (b"\xff", b'{"ts":1}'),
        (b"a", b""),
        (b"a", b"x"),
        (b"a", b"[]"),
        (b"a", b'{"ts":"1"}'),
        (b"a", b'{"ts":true}'),
        (b"a", b'{"ts":-1}'),
        (b"x" * 129, b'{"ts":1}'),
    ],
)
def test_garbage(key: bytes | None, value: bytes) -> None:
    known = participants()
    known.apply(key, value, NOW)
    assert (known.refused, len(known)) == (1, 0)


def test_tombstones_and_old_ones_are_nothing() -> None:
    known = participants()
    known.apply(b"a", None, NOW)
    known.apply(b"a", contribution_value(NOW - 60_001), NOW)
    assert (known.refused, len(known)) == (0, 0)


@pytest.mark.parametrize("car", ["\x00", "a b", "ä", "🚕" * 128, "'; drop", "a,b=c&d", "r0.c0"])
def test_odd_names(car: str) -> None:
    known = participants()
    known.apply(car.encode(), contribution_value(NOW), NOW)
    assert known.may_read(car, NOW)


def test_memory_is_bounded_and_the_last_are_kept() -> None:
    known = participants(cars_max=100)
    for number in range(10_000):
        known.contributed(f"car {number}", NOW + number % 3, is_recorded=True)
    assert len(known) == 100
    assert known.may_read("car 9999", NOW)
    assert not known.may_read("car 9", NOW)


def test_cars_that_are_gone_are_forgotten() -> None:
    known = participants(cars_max=10_000)
    for number in range(1_000):
        known.contributed(f"early {number}", NOW, is_recorded=True)
    for number in range(1_000):
        known.contributed(f"late {number}", NOW + 70_000, is_recorded=True)
    assert len(known) == 1_000
    tiny = participants(cars_max=0)
    tiny.contributed("a", NOW, is_recorded=True)
    assert tiny.may_read("a", NOW)
