from __future__ import annotations

import json

import pytest

from penstock.demo.figures import Totals
from penstock.demo.verdict import Cells, Log, Truth, Verdict, judge, read_truth


def counted(number: int) -> Totals:
    return Totals(number, number, 0, 0, 0)


def log_of(cars: int, *, repeated: int = 0, others: int = 0) -> Log:
    return Log(cars + others, repeated, cars, repeated)


# What holds


def test_all_was_counted() -> None:
    verdict = judge(Truth(1_200), log_of(1_200), counted(1_200), Cells(1_200, 1_200))
    assert verdict == Verdict("counted 1,200 of 1,200 positions, 0 lost, 0 twice", True)


def test_what_is_not_counted_is_named() -> None:
    log = Log(records=100, repeated=2, cars=99, cars_repeated=2)
    verdict = judge(Truth(99, duplicates=2), log, Totals(100, 95, 2, 2, 1))
    words = "counted 95 of 98 positions, 2 late, 2 duplicate, 1 malformed, 0 lost, 0 twice"
    assert verdict == Verdict(f"{words}; 1 of them sent by others", True)


def test_others_may_send_as_well() -> None:
    verdict = judge(Truth(100), log_of(100, others=10), counted(110))
    words = "counted 110 of 110 positions, 0 lost, 0 twice; 10 of them sent by others"
    assert verdict == Verdict(words, True)


def test_positions_without_an_answer_may_be_there() -> None:
    verdict = judge(Truth(100, unknown=20), log_of(110), counted(110))
    words = "counted 110 of 110 positions, 0 lost, 0 twice; 10 of them without an answer to the cars"
    assert verdict == Verdict(words, True)


# What does not


@pytest.mark.parametrize("number", [101, 200])
def test_what_the_map_counts_twice_is_no_good(number: int) -> None:
    verdict = judge(Truth(100), log_of(100), counted(number))
    assert verdict.holds is False
    assert f"counted {number} of 100 positions: {number - 100} read twice by the map" in verdict.text
    assert verdict.text.endswith(f"(the cars sent 100, the log has 100, the map read {number})")


def test_what_the_map_reads_twice_is_no_good_even_if_it_counts_it_once() -> None:
    verdict = judge(Truth(100), log_of(100), Totals(150, 100, 0, 50, 0))
    assert verdict.holds is False
    assert "50 read twice by the map (" in verdict.text


def test_what_others_send_hides_nothing_that_is_counted_twice() -> None:
    assert judge(Truth(100), log_of(100, others=10), counted(111)).holds is False
    assert judge(Truth(100, unknown=20), log_of(110), counted(120)).holds is False


def test_what_is_written_twice_is_no_good_even_if_the_map_counts_it_once() -> None:
    verdict = judge(Truth(100), log_of(103, repeated=3), Totals(103, 100, 0, 3, 0))
    assert verdict.holds is False
    assert "counted 100 of 100 positions, 3 duplicate: 3 written twice (" in verdict.text


def test_repeated_positions_that_are_counted_are_counted_twice() -> None:
    verdict = judge(Truth(103, duplicates=3), log_of(103, repeated=3), counted(103))
    assert verdict.holds is False
    assert "counted 103 of 100 positions: 3 counted twice (" in verdict.text


def test_what_was_not_read_is_missing() -> None:
    verdict = judge(Truth(100), log_of(100), counted(90))
    numbers = "(the cars sent 100, the log has 100, the map read 90)"
    assert verdict == Verdict(f"counted 90 of 100 positions: 10 not read by the map {numbers}", False)


def test_what_was_acknowledged_and_is_not_in_the_log_is_lost() -> None:
    verdict = judge(Truth(100), log_of(90), counted(90))
    numbers = "(the cars sent 100, the log has 90, the map read 90)"
    assert verdict == Verdict(f"counted 90 of 100 positions: 10 lost before the log {numbers}", False)


def test_neither_others_nor_repeated_positions_make_up_for_what_is_lost() -> None:
    others = judge(Truth(100), log_of(90, others=10), counted(100))
    repeated = judge(Truth(100), log_of(100, repeated=10), Totals(100, 90, 0, 10, 0))
    for verdict in (others, repeated):
        assert verdict.holds is False
        assert "10 lost before the log" in verdict.text
    assert "10 written twice" in repeated.text


def test_what_the_map_puts_aside_must_be_on_the_log() -> None:
    assert "3 lost as malformed" in judge(Truth(100), log_of(100), Totals(100, 97, 0, 0, 3)).text
    assert "3 lost as duplicates" in judge(Truth(100), log_of(100), Totals(100, 97, 0, 3, 0)).text


@pytest.mark.parametrize("shown", [99, 200])
def test_cells_that_show_something_else_are_no_good(shown: int) -> None:
    verdict = judge(Truth(100), log_of(100), counted(100), Cells(shown, 100))
    assert verdict.holds is False
    assert f"{shown} shown by the cells of the map for 100 counted" in verdict.text


def test_a_map_that_counted_nothing() -> None:
    verdict = judge(Truth(100), log_of(100), None)
    assert verdict == Verdict("the heat map has counted none of 100 positions", False)


# What cannot be said


def test_nothing_is_claimed_of_cars_that_were_killed() -> None:
    verdict = judge(None, log_of(90), counted(90))
    assert verdict.holds is None
    assert "what the cars sent is not known" in verdict.text
    assert judge(None, None, None).holds is None


def test_log_and_map_are_compared_without_the_cars_too() -> None:
    assert judge(None, log_of(90), counted(180)).holds is False
    assert judge(None, log_of(90), counted(80)).holds is False
    assert judge(None, log_of(90, repeated=1), Totals(90, 89, 0, 1, 0)).holds is False


def test_without_the_log_only_loss_shows() -> None:
    assert judge(Truth(100), None, counted(100)).holds is None
    assert judge(Truth(100), None, counted(200)).holds is None
    assert judge(Truth(100), None, counted(90)).holds is False


# The cars' journal


def test_the_truth_is_that_of_all_runs() -> None:
    first, second = ({"sent": sent, "good": sent - 1, "duplicates": 1} for sent in (10, 20))
    assert read_truth([json.dumps(first), json.dumps(second | {"unknown": 5})]) == Truth(30, 2, 5)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"good": 1}', '{"sent": null}'])
def test_one_run_without_a_word_makes_it_unknown(content: str) -> None:
    assert read_truth([json.dumps({"sent": 1}), content]) is None


def test_no_run_is_no_truth() -> None:
    assert read_truth([]) is None
