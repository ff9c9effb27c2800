from __future__ import annotations

from penstock.controller.patience import Patience


def test_it_ends_when_something_was_missed_for_the_limit() -> None:
    patience = Patience(30.0)
    assert patience.is_left(1000.0)
    for now_s in (1000.0, 1010.0, 1029.0):
        patience.missed(now_s)
        assert patience.is_left(now_s)
    assert not patience.is_left(1030.0)


def test_what_was_found_is_waited_for_anew() -> None:
    patience = Patience(30.0)
    patience.missed(1000.0)
    patience.found()
    assert patience.is_left(1040.0)


def test_a_pause_begins_it_anew() -> None:
    patience = Patience(30.0)
    patience.missed(1000.0)
    patience.missed(1030.0)
    assert patience.is_left(1059.0)
    assert not patience.is_left(1060.0)
