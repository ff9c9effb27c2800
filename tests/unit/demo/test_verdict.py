from __future__ import annotations

import json

import pytest

from penstock.demo.figures import Totals
from penstock.demo.verdict import Truth, Verdict, is_all_counted, judge, read_truth


def test_all_was_counted() -> None:
    verdict = judge(Truth(1_200, 1_200), Totals(1_200, 1_200, 0, 0, 0))
    assert verdict == Verdict("counted 1,200 of 1,200 positions, 0 lost", True)


def test_what_is_not_counted_is_named() -> None:
    verdict = judge(Truth(100, 97), Totals(100, 95, 2, 2, 1))
    assert verdict == Verdict("counted 95 of 97 positions, 2 late, 2 duplicate, 1 malformed, 0 lost", True)


def test_what_was_not_counted_is_missing() -> None:
    verdict = judge(Truth(100, 100), Totals(90, 90, 0, 0, 0))
    assert verdict == Verdict("counted 90 of 100 positions, 10 missing", False)


def test_more_counted_than_good_is_no_good() -> None:
    assert judge(Truth(100, 90), Totals(100, 95, 0, 5, 0)).holds is False


def test_others_may_send_as_well() -> None:
    verdict = judge(Truth(100, 100), Totals(110, 110, 0, 0, 0))
    assert verdict == Verdict("counted 110 positions; the cars sent 100 of them, and others the rest", True)


@pytest.mark.xfail(strict=True, reason="what is counted twice passes for what others have sent")
@pytest.mark.parametrize("counted", [101, 200])
def test_what_is_counted_twice_is_no_good(counted: int) -> None:
    assert judge(Truth(100, 100), Totals(counted, counted, 0, 0, 0)).holds is False


def test_positions_without_an_answer_may_be_there() -> None:
    verdict = judge(Truth(100, 100, unknown=20), Totals(110, 110, 0, 0, 0))
    words = "counted 110 positions; the cars know of 100, and got no answer about 20 more"
    assert verdict == Verdict(words, True)
    assert judge(Truth(100, 100, unknown=20), Totals(99, 99, 0, 0, 0)).holds is False


def test_nothing_is_claimed_of_cars_that_were_killed() -> None:
    assert judge(None, Totals(90, 90, 0, 0, 0)).holds is None
    assert judge(None, None).holds is None


def test_a_map_that_counted_nothing() -> None:
    assert judge(Truth(100, 100), None) == Verdict("the heat map has counted none of 100 positions", False)


def test_the_truth_is_that_of_all_runs() -> None:
    first, second = ({"sent": sent, "good": sent - 1, "cells": {}} for sent in (10, 20))
    assert read_truth([json.dumps(first), json.dumps(second | {"unknown": 5})]) == Truth(30, 28, 5)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"sent": 1}', '{"sent": 1, "good": null}'])
def test_one_run_without_a_word_makes_it_unknown(content: str) -> None:
    assert read_truth([json.dumps({"sent": 1, "good": 1}), content]) is None


def test_no_run_is_no_truth() -> None:
    assert read_truth([]) is None


def test_when_all_is_counted() -> None:
    assert not is_all_counted(Truth(10, 10), None)
    assert not is_all_counted(Truth(10, 10), Totals(9, 9, 0, 0, 0))
    assert is_all_counted(Truth(10, 10), Totals(10, 9, 1, 0, 0))
