"""Which job is to blame for a failure, and which failures nobody is to blame for."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.errors import PySparkRuntimeError

from penstock.pipelines.flights.service.alone import TRIES, alone
from penstock.pipelines.flights.service.failures import is_of_brokers, is_passing
from penstock.spark.errors import SourceError

KILLED = "Job aborted: Python worker exited unexpectedly (crashed)"
AWAY = "Traceback:\n  in a task\npenstock.spark.errors.SourceError: topic t: no broker answers"


class Failing:
    """Fails with one text after the other, and then succeeds."""

    def __init__(self, *texts: str) -> None:
        self.calls = 0
        self._texts = texts

    def __call__(self) -> dict[str, int]:
        self.calls += 1
        if self.calls <= len(self._texts):
            raise PySparkRuntimeError(self._texts[self.calls - 1])
        return {"rows": 7}


def test_workers_that_are_killed_now_and_then_are_nobodys_fault() -> None:
    work = Failing(*[KILLED] * (TRIES - 1))
    assert alone(work) == {"rows": 7}
    assert work.calls == TRIES


def test_a_job_that_kills_its_worker_every_time() -> None:
    work = Failing(*[KILLED] * TRIES)
    assert "Python worker exited unexpectedly" in str(alone(work))
    assert work.calls == TRIES


def test_what_does_not_pass_is_not_tried_again() -> None:
    work = Failing("Traceback:\nZeroDivisionError: division by zero")
    assert alone(work) == "ZeroDivisionError: division by zero"
    assert work.calls == 1


@pytest.mark.parametrize("first", [(), (KILLED,)])
def test_work_that_is_cancelled_tells_nothing_about_its_job(first: tuple[str, ...]) -> None:
    work: Callable[[], dict[str, int]] = Failing(*first, "Job 7 cancelled because the query stops")
    with pytest.raises(PySparkRuntimeError, match="cancelled"):
        alone(work)


def test_who_is_to_blame() -> None:
    away, killed = PySparkRuntimeError(AWAY), PySparkRuntimeError(KILLED)
    assert [is_of_brokers(each) for each in (SourceError("no broker"), away, killed)] == [True, True, False]
    assert all(map(is_passing, (SourceError("no broker"), away, killed)))
    assert not is_passing(ValueError("nobody has seen this before"))
