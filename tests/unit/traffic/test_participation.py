"""Who may read traffic, and how often others are told of it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.errors import InvalidMessageError
from penstock.traffic.participation import (
    WINDOW_S,
    Participation,
    contribution_value,
    parse_contribution,
    parse_window,
    window_value,
)


def test_only_those_who_contribute_may_read() -> None:
    rule = Participation(60)
    assert not rule.may_read("7", 0)
    rule.contributed("7", 1_000)
    assert rule.may_read("7", 1_000)
    assert rule.may_read("7", 61_000)
    assert not rule.may_read("7", 61_001)
    assert not rule.may_read("8", 1_000)


def test_an_old_contribution_does_not_replace_a_new_one() -> None:
    rule = Participation(60)
    rule.contributed("7", 100_000)
    rule.contributed("7", 1_000)
    assert rule.may_read("7", 160_000)


def test_without_a_window_everybody_may_read() -> None:
    rule = Participation(0)
    assert not rule.required
    assert rule.may_read("7", 10**15)
    assert rule.due(["7"], 1) == []


def test_others_are_told_three_times_in_a_window() -> None:
    rule = Participation(60)
    told = [now for now in range(0, 60_000, 1_000) if rule.due(["7"], now)]
    assert told == [0, 20_000, 40_000]
    assert rule.may_read("7", 119_000)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30_000)), max_size=60))
def test_whoever_contributes_may_read_and_others_know(steps: list[tuple[str, int]]) -> None:
    """Of two that share only what is due, the second knows a car for two thirds of the window at least."""
    here, there = Participation(60), Participation(60)
    now = 0
    for car, pause in steps:
        now += pause
        for each in here.due([car], now):
            there.contributed(each, now)
        assert here.may_read(car, now)
        assert there.may_read(car, now + 40_000)


def test_cars_that_are_gone_are_forgotten() -> None:
    rule = Participation(60)
    for second in range(1_000):
        rule.due([f"car {second}"], second * 1_000)
        rule.contributed(f"bus {second}", second * 1_000)
    assert len(rule._last) + len(rule._recorded) < 1_000
    assert rule.may_read("bus 999", 999_000)


@pytest.mark.parametrize("window", [-1, math.nan, math.inf, 86_401])
def test_windows_that_are_none(window: float) -> None:
    with pytest.raises(ValueError, match="window"):
        Participation(window)


@given(st.text(st.characters(codec="utf-8"), min_size=1), st.integers(0, 2**53))
def test_a_contribution_and_back(car: str, ts: int) -> None:
    assert parse_contribution(car.encode(), contribution_value(ts)) == (car, ts)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b'{"ts":1}'),
        (b"", b'{"ts":1}'),
        (b"\xff", b'{"ts":1}'),
        (b"7", None),
        (b"7", b""),
        (b"7", b"[]"),
        (b"7", b"1"),
        (b"7", b"{}"),
        (b"7", b'{"ts":true}'),
        (b"7", b'{"ts":-1}'),
        (b"7", b'{"ts":1.5}'),
        (b"7", b'{"ts":"1"}'),
    ],
)
def test_what_is_not_a_contribution(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(InvalidMessageError, match="not a contribution"):
        parse_contribution(key, value)


@pytest.mark.parametrize(
    "value",
    [None, b"", b"nonsense", b"60", b"{}", b'{"window_s":-1}', b'{"window_s":86401}', b'{"window_s":"0"}',
     b'{"window_s":false}', b'{"window_s":null}', b'{"window_s":NaN}', b"[" * 10_000],
)  # fmt: skip
def test_what_is_no_window_opens_nothing(value: bytes | None) -> None:
    assert parse_window(value) == WINDOW_S


@pytest.mark.parametrize("window_s", [0, 1.5, 60, 86_400])
def test_a_window_that_is_published(window_s: float) -> None:
    assert parse_window(window_value(window_s)) == window_s
