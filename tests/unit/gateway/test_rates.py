"""Buckets of client addresses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.gateway.rates import Rates


@given(
    gaps=st.lists(st.floats(0, 0.5), min_size=1, max_size=200),
    per_second=st.floats(1, 50),
    burst=st.integers(1, 20),
)
def test_never_more_than_the_burst_and_the_rate(gaps: list[float], per_second: float, burst: int) -> None:
    rates = Rates(per_second, burst, 10)
    now = allowed = 0.0
    for gap in gaps:
        now += gap
        allowed += rates.wait_s("a", now) == 0
    assert allowed <= burst + now * per_second + 1e-6


def test_who_waits_as_told_is_served() -> None:
    rates = Rates(2, 1, 10)
    assert rates.wait_s("a", 0) == 0
    wait = rates.wait_s("a", 0)
    assert wait == 0.5
    assert rates.wait_s("a", 0.25) == 0.25
    assert rates.wait_s("a", 0.5) == 0


def test_addresses_do_not_share() -> None:
    rates = Rates(1, 1, 10)
    assert rates.wait_s("a", 0) == rates.wait_s("b", 0) == 0


def test_no_limit() -> None:
    rates = Rates(0, 1, 10)
    assert all(rates.wait_s("a", 0) == 0 for _ in range(100))
    assert len(rates) == 0


def test_memory_is_bounded_and_the_busiest_are_remembered() -> None:
    rates = Rates(0.001, 1, 3)
    assert rates.wait_s("busy", 0) == 0
    for i in range(100):
        rates.wait_s(f"other {i}", 1)
        assert rates.wait_s("busy", 1) > 0
    assert len(rates) == 3
