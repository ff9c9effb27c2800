"""When a node hangs and is to be ended."""

from __future__ import annotations

from penstock.supervisor.watchdog import SILENT_S_MAX, STOPPED_S_MAX, Watchdog

STEP_S = 0.1


def look_for(
    watchdog: Watchdog, begin: float, seconds: float, *, is_stopped: bool = False, is_silent: bool = False
) -> list[str]:
    steps = round(seconds / STEP_S)
    looks = [
        watchdog.look(1, begin + step * STEP_S, is_stopped=is_stopped, is_silent=is_silent)
        for step in range(steps + 1)
    ]
    return [cause for cause in looks if cause is not None]


def test_a_stopped_process_is_ended_after_a_while() -> None:
    watchdog = Watchdog()
    assert look_for(watchdog, 0.0, STOPPED_S_MAX - STEP_S, is_stopped=True) == []
    assert watchdog.look(1, STOPPED_S_MAX, is_stopped=True, is_silent=False) == (
        "its process was stopped for 1.0 s"
    )


def test_one_that_goes_on_in_time_is_not() -> None:
    watchdog = Watchdog()
    assert look_for(watchdog, 0.0, STOPPED_S_MAX - STEP_S, is_stopped=True) == []
    assert look_for(watchdog, STOPPED_S_MAX, STEP_S) == []
    assert look_for(watchdog, STOPPED_S_MAX + 2 * STEP_S, STOPPED_S_MAX - STEP_S, is_stopped=True) == []


def test_a_fenced_node_that_does_not_answer_gets_more_time() -> None:
    """A machine under load looks like that, too."""
    watchdog = Watchdog()
    assert look_for(watchdog, 0.0, SILENT_S_MAX - STEP_S, is_silent=True) == []
    (cause,) = look_for(watchdog, SILENT_S_MAX, 0.0, is_silent=True)
    assert cause == "its broker is fenced, and it has not answered for 10.0 s"


def test_silence_does_not_count_as_a_stop() -> None:
    watchdog = Watchdog()
    assert look_for(watchdog, 0.0, 2.0, is_silent=True) == []
    assert look_for(watchdog, 2.1, STOPPED_S_MAX - STEP_S, is_stopped=True) == []


def test_time_in_which_nobody_looked_does_not_count() -> None:
    """The supervisor was stopped itself, or the whole machine."""
    watchdog = Watchdog()
    assert look_for(watchdog, 0.0, 0.5, is_silent=True) == []
    assert look_for(watchdog, 100.0, 0.5, is_silent=True) == []


def test_one_that_was_ended_is_looked_at_anew() -> None:
    watchdog = Watchdog()
    assert len(look_for(watchdog, 0.0, STOPPED_S_MAX, is_stopped=True)) == 1
    assert look_for(watchdog, STOPPED_S_MAX + STEP_S, STOPPED_S_MAX - STEP_S, is_stopped=True) == []
