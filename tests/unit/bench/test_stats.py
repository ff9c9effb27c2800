from __future__ import annotations

import pytest
from bench.stats import Mark, Target, paired_ratio, percentile, spread


def test_percentile_is_a_value_that_occurred() -> None:
    values = [5.0, 1.0, 4.0, 2.0, 3.0]
    assert percentile(values, 0.5) == 3.0
    assert percentile(values, 0.99) == 5.0
    assert percentile(values, 0.2) == 1.0
    assert percentile(values, 0.21) == 2.0
    assert percentile([7.0], 0.5) == 7.0


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1])
def test_percentile_refuses_a_share_outside_of_the_values(share: float) -> None:
    with pytest.raises(ValueError, match="share"):
        percentile([1.0], share)


def test_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_a_slow_round_of_the_machine_cancels_out() -> None:
    assert paired_ratio([200.0, 20.0, 220.0], [100.0, 10.0, 100.0]) == 2.0


def test_rounds_must_come_in_pairs() -> None:
    with pytest.raises(ValueError, match="2 rounds beside 1"):
        paired_ratio([1.0, 2.0], [1.0])


def test_spread_is_relative_to_the_median() -> None:
    assert spread([9.0, 10.0, 12.0]) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("ratio", "mark"),
    [(0.69, Mark.BELOW), (0.7, Mark.BAR), (0.89, Mark.BAR), (0.9, Mark.AIM), (3.0, Mark.AIM)],
)
def test_more_is_better_by_default(ratio: float, mark: Mark) -> None:
    assert Target(0.7, 0.9).judge(ratio) is mark


@pytest.mark.parametrize(
    ("ratio", "mark"),
    [(2.6, Mark.BELOW), (2.5, Mark.BAR), (1.51, Mark.BAR), (1.5, Mark.AIM), (0.1, Mark.AIM)],
)
def test_less_is_better_where_the_target_says_so(ratio: float, mark: Mark) -> None:
    assert Target(2.5, 1.5, at_least=False).judge(ratio) is mark


def test_a_target_says_in_which_direction_it_counts() -> None:
    assert Target(2, 5).text(2) == "≥ 2×"
    assert Target(0.2, 0.1, at_least=False).text(0.2) == "≤ 0.2×"
