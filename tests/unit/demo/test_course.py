from __future__ import annotations

import re
from typing import Any

import pytest

from penstock.demo.course import BACK_OFF, Course, Phase, reason_of
from penstock.demo.plan import Part

READY = re.compile("ready")


def service(name: str, **fields: Any) -> Part:
    return Part(name=name, title=f"the {name}", command=(name,), ready=READY, **fields)


def job(name: str, **fields: Any) -> Part:
    return Part(name=name, title=f"the {name}", command=(name,), **fields)


def started(*parts: Part) -> Course:
    course = Course(parts)
    for part in course.due(0.0):
        course.started(part.name, 0.0)
    return course


def names(parts: list[Part]) -> list[str]:
    return [part.name for part in parts]


def test_parts_that_need_nothing_are_started_at_once_and_the_others_in_their_turn() -> None:
    course = Course(
        [service("a"), service("b", after=("a",)), job("c", after=("b", "map")), job("d", after=("c",))]
    )
    assert names(course.due(0.0)) == ["a"]
    course.started("a", 0.0)
    assert course.due(0.0) == []
    assert not course.heard("a", "not yet", 1.0)
    assert course.heard("a", "ready now", 1.0)
    assert not course.heard("a", "ready again", 1.0)
    assert names(course.due(1.0)) == ["b"]
    course.started("b", 1.0)
    course.heard("b", "ready", 2.0)
    assert course.due(2.0) == []
    course.reach("map")
    assert names(course.due(2.0)) == ["c"]
    course.started("c", 2.0)
    assert not course.heard("c", "ready", 2.0), "a job is ready when it is done"
    assert course.ended("c", 0, [], 3.0).phase is Phase.DONE
    assert names(course.due(3.0)) == ["d"]


def test_a_service_that_ends_is_started_again_later_each_time_and_given_up_in_the_end() -> None:
    course = started(service("a", restarts_max=3))
    now, delays = 0.0, []
    for _ in range(3):
        course.heard("a", "ready", now)
        ended = course.ended("a", -9, [], now)
        assert (ended.phase, ended.reason) == (Phase.DOWN, "killed by signal 9")
        assert course.due(ended.start_at - 0.01) == []
        assert names(course.due(ended.start_at)) == ["a"]
        delays.append(ended.start_at - now)
        now = ended.start_at
        course.started("a", now)
    assert delays == [1.0, 2.0, 4.0]
    course.heard("a", "ready", now)
    assert course.ended("a", -9, [], now).phase is Phase.GIVEN_UP
    assert course.due(now + 1_000) == []


def test_who_was_well_for_a_while_has_all_its_starts_again() -> None:
    course = started(service("a", restarts_max=1))
    now = 0.0
    for _ in range(10):
        course.heard("a", "ready", now)
        now += BACK_OFF.settled_s
        ended = course.ended("a", -9, [], now)
        assert (ended.phase, ended.ends) == (Phase.DOWN, 1)
        now = ended.start_at
        course.started("a", now)


def test_the_end_of_a_service_is_a_failure_whatever_its_code() -> None:
    course = started(service("a"))
    assert course.ended("a", 0, [], 1.0).phase is Phase.DOWN


def test_who_refuses_with_the_same_words_twice_is_not_asked_again() -> None:
    course = started(service("a", restarts_max=5))
    assert course.ended("a", 1, ["penstock: no Java"], 0.0).phase is Phase.DOWN
    course.started("a", 1.0)
    given_up = course.ended("a", 1, ["penstock: no Java"], 1.0)
    assert (given_up.phase, given_up.reason) == (Phase.GIVEN_UP, "no Java")


def test_another_reason_is_another_try() -> None:
    course = started(service("a", restarts_max=5))
    for reason in ("no brokers", "no leader", "no brokers"):
        assert course.ended("a", 1, [f"penstock: {reason}"], 0.0).phase is Phase.DOWN
        course.started("a", 1.0)


def test_without_an_essential_part_nothing_is_tried_twice() -> None:
    course = started(service("a", is_essential=True))
    assert course.ended("a", 1, ["penstock: the port is taken"], 0.0).phase is Phase.GIVEN_UP


def test_an_essential_part_that_ran_is_started_again() -> None:
    course = started(service("a", is_essential=True, again_s=8.0))
    course.heard("a", "ready", 1.0)
    ended = course.ended("a", -9, [], 2.0)
    assert (ended.phase, ended.start_at) == (Phase.DOWN, 10.0)
    course.adopted("a", 3.0)
    assert course["a"].phase is Phase.RUNNING
    assert course.due(100.0) == []


def test_a_job_that_fails_is_tried_again_as_often_as_it_may() -> None:
    course = started(job("a", restarts_max=1), job("b", after=("a",)))
    assert course.ended("a", -15, [], 0.0).phase is Phase.DOWN
    course.started("a", 1.0)
    assert course.ended("a", -15, [], 1.0).phase is Phase.GIVEN_UP
    assert course.due(100.0) == []


def test_a_retired_part_is_not_started_again() -> None:
    course = started(service("a"), service("b", after=("a",)))
    course.retire("a")
    course.retire("b")
    course.heard("a", "ready", 1.0)
    assert course.ended("a", -9, [], 1.0).phase is Phase.STOPPED
    assert course["b"].phase is Phase.STOPPED
    assert course.due(100.0) == []


def test_a_retired_part_keeps_how_it_ended_before() -> None:
    course = started(job("a"), job("b", restarts_max=0))
    course.ended("a", 0, [], 0.0)
    course.ended("b", 1, [], 0.0)
    for name in ("a", "b"):
        course.retire(name)
    assert [each.phase for each in course] == [Phase.DONE, Phase.GIVEN_UP]


@pytest.mark.parametrize(
    ("code", "tail", "reason"),
    [
        (1, ["some log", "penstock: no Java", ""], "no Java"),
        (3, ["Traceback", "ValueError: x", ""], "exit code 3; its last words: ValueError: x"),
        (3, [], "exit code 3"),
        (-9, ["penstock: an old complaint"], "killed by signal 9"),
        (0, ["all is well"], "exit code 0"),
    ],
)
def test_the_reason_is_the_command_s_own_word_or_how_it_ended(
    code: int, tail: list[str], reason: str
) -> None:
    assert reason_of(code, tail) == reason
