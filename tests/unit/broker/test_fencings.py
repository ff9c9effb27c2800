"""Which brokers were fenced a moment ago."""

from __future__ import annotations

from penstock.broker.fencings import RECENT_MS, Fencings


def test_a_fencing_is_recent_for_a_while() -> None:
    now_ms = 1_000
    fencings = Fencings(lambda: now_ms)
    assert not fencings.is_recent(1), "it was fenced before anybody looked"
    fencings.note(1, is_fenced=True)
    assert fencings.is_recent(1)
    now_ms += RECENT_MS - 1
    fencings.note(1, is_fenced=True)
    assert fencings.is_recent(1)
    now_ms += 1
    assert not fencings.is_recent(1), "it is fenced still, and counts from the first time"


def test_a_broker_that_returned_is_fenced_anew() -> None:
    now_ms = 1_000
    fencings = Fencings(lambda: now_ms)
    fencings.note(1, is_fenced=True)
    fencings.note(1, is_fenced=False)
    assert not fencings.is_recent(1)
    now_ms += 2 * RECENT_MS
    fencings.note(1, is_fenced=True)
    assert fencings.is_recent(1)
