from __future__ import annotations

from penstock.supervisor.restarts import BackOff, Phase, Restarts


def test_everything_is_started_at_once() -> None:
    restarts = Restarts([1, 2, 1001], now=10.0)
    assert restarts.due(10.0) == [1, 2, 1001]
    restarts.started(1, 10.0)
    assert restarts.due(10.0) == [2, 1001]
    assert restarts.not_running() == {1: Phase.STARTING, 2: Phase.DOWN, 1001: Phase.DOWN}


def test_a_node_that_served_is_back_soon() -> None:
    restarts = Restarts([1], now=0.0, back_off=BackOff(first_s=0.5, settled_s=3.0))
    restarts.started(1, 0.0)
    restarts.ready(1, 1.0)
    assert not restarts.not_running()
    assert restarts.ended(1, 100.0) == 0.5
    assert restarts.due(100.4) == []
    assert restarts.due(100.5) == [1]


def test_a_node_that_cannot_live_is_tried_less_and_less_often() -> None:
    restarts = Restarts([1], now=0.0, back_off=BackOff(first_s=0.5, max_s=3.0))
    delays, now = [], 0.0
    for _ in range(5):
        restarts.started(1, now)
        delays.append(restarts.ended(1, now))
        now += delays[-1]
    assert delays == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_to_be_ready_for_a_moment_is_not_to_be_well() -> None:
    restarts = Restarts([1], now=0.0, back_off=BackOff(first_s=0.5, settled_s=3.0))
    delays, now = [], 0.0
    for served in (1.0, 2.9, 3.0):
        restarts.started(1, now)
        restarts.ready(1, now)
        now += served
        delays.append(restarts.ended(1, now))
        now += delays[-1]
    assert delays == [0.5, 1.0, 0.5]


def test_who_is_forgotten_is_not_started() -> None:
    restarts = Restarts([1, 2], 0.0)
    restarts.forget(2)
    assert restarts.due(0.0) == [1]
    assert list(restarts.not_running()) == [1]


def test_one_node_s_trouble_is_its_own() -> None:
    restarts = Restarts([1, 2], now=0.0)
    for node in (1, 2):
        restarts.started(node, 0.0)
    for _ in range(3):
        restarts.ended(1, 0.0)
        restarts.started(1, 100.0)
    assert restarts.ended(2, 0.0) == BackOff().first_s


def test_a_night_of_failures_has_an_end() -> None:
    assert BackOff().delay(1_000_000) == BackOff().max_s
