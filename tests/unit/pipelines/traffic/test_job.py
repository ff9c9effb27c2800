"""What the job does about failures, and what it says."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from penstock.client.errors import DisconnectedServerError
from penstock.pipelines.traffic.job import FAILURES_MAX, JobError, passing
from penstock.spark.errors import SourceError

WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "worker.py", line 1, in read
    raise it
{}
 SQLSTATE: 38000
"""


def test_brokers_that_are_away_pass_however_often() -> None:
    silent = "nothing came from 127.0.0.1:9092 for 30 s: Connection refused"
    error = PySparkException(WORKER.format(f"penstock.spark.errors.SourceError: {silent}"))
    assert passing(error, failures=100) == silent
    assert passing(SourceError("not written"), failures=100) == "not written"
    assert passing(DisconnectedServerError("nobody is there"), failures=100) == "nobody is there"


@pytest.mark.parametrize(
    "line",
    [
        "penstock.spark.errors.DataLossError: partition traffic.r0.c0-1 is gone",
        "penstock.pipelines.traffic.state.StateError: a state of version 2, not 1",
        "penstock.spark.errors.OptionError: option 'x': is unknown",
    ],
)
def test_what_does_not_pass_ends_the_job(line: str) -> None:
    with pytest.raises(JobError) as ended:
        passing(PySparkException(WORKER.format(line)), failures=1)
    assert str(ended.value) == line.split(": ", 1)[1]


def test_what_nobody_foresaw_is_tried_some_times_and_named_in_one_line() -> None:
    error = PySparkException(WORKER.format("ValueError: cannot do that"))
    assert passing(error, FAILURES_MAX - 1) == "ValueError: cannot do that"
    with pytest.raises(JobError, match="ValueError: cannot do that"):
        passing(error, FAILURES_MAX)
    assert passing(PySparkException("Something else\nwith lines below"), 1) == "Something else"
