"""What a failed Spark job was about: of many lines of Java and Python, the one that its task said last."""

from __future__ import annotations

import re
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from penstock.client.errors import PenstockError
from penstock.spark.errors import SourceError

SPARK_ERRORS: Final = (PySparkException, Py4JJavaError)
"""What the failure of a Spark job is, depending on who has noticed it."""

_OWN_ERROR: Final = re.compile(r"^penstock\.[\w.]+\.(\w+): (.*)$", re.MULTILINE)
_PYTHON_ERROR: Final = re.compile(r"^[\w.]+(?:Error|Exception): .+$", re.MULTILINE)
"""The last line of a worker's traceback."""
_CALLED: Final = re.compile("An error occurred while calling ")
"""The first line of an error from Java, which says nothing else."""


def own_kind(error: Exception) -> str:
    """Which of Penstock's errors it is, noticed here or in one of Spark's processes; empty if none."""
    if isinstance(error, SourceError | PenstockError):
        return type(error).__name__
    own = _OWN_ERROR.findall(str(error))
    return str(own[-1][0]) if own else ""


def line_of(error: Exception) -> str:
    """What it says, in one line."""
    text = str(error)
    if isinstance(error, SourceError | PenstockError):
        return text
    if own := _OWN_ERROR.findall(text):
        return str(own[-1][1])
    if of_workers := _PYTHON_ERROR.findall(text):
        return str(of_workers[-1])
    lines = [line.strip(": ") for line in text.splitlines() if line.strip() and not _CALLED.match(line)]
    causes = [line for line in lines if line.startswith("Caused by:")]
    return (causes[-1:] or lines or [type(error).__name__])[0]
