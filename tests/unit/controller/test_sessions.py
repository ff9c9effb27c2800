"""Which brokers have been heard of lately."""

from __future__ import annotations

from penstock.controller.sessions import BrokerSessions

SESSION_MS = 2_000


def test_a_broker_is_alive_for_a_session() -> None:
    sessions = BrokerSessions(SESSION_MS)
    assert not sessions.is_alive(1, 0)
    sessions.begin(1, 10, 100)
    assert sessions.is_alive(1, 100)
    assert sessions.is_alive(1, 2_099)
    assert not sessions.is_alive(1, 2_100)


def test_heartbeats_prolong_a_session() -> None:
    sessions = BrokerSessions(SESSION_MS)
    sessions.begin(1, 10, 0)
    sessions.heard(1, 10, 1_500)
    assert sessions.silent(3_499) == []
    assert sessions.silent(3_500) == [1]
    assert sessions.silent_ms(1, 3_500) == 2_000
    assert sessions.silent_ms(2, 3_500) == 0


def test_an_earlier_process_does_not_keep_the_session_of_a_later_one() -> None:
    sessions = BrokerSessions(SESSION_MS)
    sessions.begin(1, 10, 0)
    sessions.heard(1, 9, 1_900)
    assert sessions.silent(2_000) == [1]


def test_a_later_process_takes_the_place_of_an_earlier_one() -> None:
    sessions = BrokerSessions(SESSION_MS)
    sessions.begin(1, 10, 0)
    sessions.begin(1, 20, 1_000)
    sessions.heard(1, 10, 2_500)
    assert sessions.silent(2_999) == []
    assert sessions.silent(3_000) == [1]
    sessions.heard(1, 30, 4_000)
    assert sessions.is_alive(1, 4_000)


def test_a_heartbeat_alone_begins_a_session() -> None:
    """After a change of the controller nobody registers anew."""
    sessions = BrokerSessions(SESSION_MS)
    sessions.heard(3, 5, 1_000)
    assert sessions.is_alive(3, 1_000)
    assert sessions.silent(3_000) == [3]


def test_what_has_ended_is_not_silent() -> None:
    sessions = BrokerSessions(SESSION_MS)
    for broker_id in (1, 2, 3):
        sessions.begin(broker_id, 10, 0)
    sessions.end(2)
    sessions.end(7)
    assert sessions.silent(SESSION_MS) == [1, 3]
    assert not sessions.is_alive(2, 0)
