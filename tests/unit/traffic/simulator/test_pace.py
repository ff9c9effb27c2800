"""Steps in real time, and what happens when there is not enough of it."""

from __future__ import annotations

import pytest

from penstock.traffic.simulator.pace import LAG_S_MAX, STEP_MS, STEP_S, Pace


def test_steps_are_due_one_after_the_other() -> None:
    pace = Pace(100.0, 5_000)
    assert pace.due_s == pytest.approx(100.0 + STEP_S)
    assert pace.next(pace.due_s) == 5_000 + STEP_MS
    assert pace.next(pace.due_s) == 5_000 + 2 * STEP_MS
    assert pace.due_s == pytest.approx(100.0 + 3 * STEP_S)
    assert pace.lag_s(100.0) == 0.0


def test_a_short_delay_is_made_good_with_the_timestamps_that_were_due() -> None:
    pace = Pace(0.0, 0)
    late = 10 * STEP_S
    stamps = []
    while pace.due_s <= late:
        assert pace.lag_s(late) == pytest.approx(late - pace.due_s)
        stamps.append(pace.next(late))
    assert stamps == [step * STEP_MS for step in range(1, 11)]
    assert pace.left_out_s == 0.0


def test_a_long_delay_is_left_out_and_timestamps_stay_with_the_clock() -> None:
    pace = Pace(0.0, 1_000_000)
    last = pace.next(STEP_S)
    now_s = 30.0
    ts = pace.next(now_s)
    assert ts > last
    assert abs(ts - (1_000_000 + now_s * 1_000)) <= 1
    assert pace.left_out_s == pytest.approx(now_s - 2 * STEP_S, abs=0.001)
    assert pace.due_s > now_s, "nothing is left to be made good"


def test_timestamps_never_repeat_however_late_it_is() -> None:
    pace = Pace(0.0, 0)
    stamps, now_s = [], 0.0
    for step in range(200):
        now_s = max(now_s, pace.due_s) + (LAG_S_MAX + 0.3337 if step % 7 == 0 else 0.0)
        stamps.append(pace.next(now_s))
        assert now_s * 1_000 - stamps[-1] <= LAG_S_MAX * 1_000 + 1
    assert stamps == sorted(set(stamps))
