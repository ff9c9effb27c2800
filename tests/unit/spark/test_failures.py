"""Of a failed Spark job, the line that matters."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkRuntimeError

from penstock.client.errors import DisconnectedServerError
from penstock.spark.errors import DataLossError, SourceError
from penstock.spark.failures import line_of, own_kind

OF_A_TASK = "Traceback…\npenstock.spark.errors.SourceError: nothing came for 30 s\n at org…"
OF_JAVA = (
    "An error occurred while calling o327.collectToPython.\n: org.apache.spark.SparkException: gone\n\tat"
)


@pytest.mark.parametrize(
    ("error", "kind", "line"),
    [
        (SourceError("no broker"), "SourceError", "no broker"),
        (DisconnectedServerError("nobody"), "DisconnectedServerError", "nobody"),
        (PySparkRuntimeError(OF_A_TASK), "SourceError", "nothing came for 30 s"),
        (RuntimeError("a\n  File x\nValueError: bad\nmore"), "", "ValueError: bad"),
        (RuntimeError(OF_JAVA), "", "org.apache.spark.SparkException: gone"),
        (
            RuntimeError(OF_JAVA + "\nCaused by: java.io.IOException: No space left"),
            "",
            "Caused by: java.io.IOException: No space left",
        ),
        (RuntimeError("Something else\nwith lines below"), "", "Something else"),
        (ValueError(), "", "ValueError"),
    ],
)
def test_what_it_was_and_what_it_says(error: Exception, kind: str, line: str) -> None:
    assert (own_kind(error), line_of(error)) == (kind, line)


def test_the_last_of_several_is_what_ended_it() -> None:
    both = f"{OF_A_TASK}\npenstock.spark.errors.DataLossError: {DataLossError('t-0')}"
    assert own_kind(RuntimeError(both)) == "DataLossError"
    assert line_of(RuntimeError(both)).startswith("t-0 (to go on")
