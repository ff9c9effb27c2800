"""Which errors pass by themselves: what then has to be done is the same again."""

from __future__ import annotations

import re
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from penstock.client.errors import PenstockError
from penstock.spark.errors import OptionError, SinkFencedError, SourceError

SPARK_ERRORS: Final = (PySparkException, Py4JJavaError)
"""What the failure of a Spark job is, depending on who has noticed it."""
OWN_ERROR: Final = re.compile(r"^penstock\.[\w.]+\.(\w+): (.*)$", re.MULTILINE)
PYTHON_ERROR: Final = re.compile(r"^[\w.]+(?:Error|Exception): .+$", re.MULTILINE)
"""The last line of a worker's traceback."""
CALLED: Final = re.compile("An error occurred while calling ")
"""The first line of an error from Java, which says nothing else."""
WORKER_ERRORS: Final = (
    "Python worker exited unexpectedly",
    "Python worker failed to connect back",
    "Failed to connect to worker",
    "Connection reset",
    "Broken pipe",
    "EOFException",
    "Cannot run program",
    "Executor heartbeat timed out",
)
"""What Spark says when a process has died, or was too slow to start."""
CANCELLED: Final = "cancelled"
"""What it says of work that nobody wants any more, as when the query stops."""
_OWN_LASTING: Final = (OptionError, SinkFencedError)
_OWN_PASSING: Final = ("SourceError", "NotWrittenError", "DataLossError")


def is_lasting(error: Exception) -> bool:
    """What no repetition can help."""
    return isinstance(error, _OWN_LASTING)


def is_passing(error: Exception) -> bool:
    """Brokers that are away, a worker that was killed."""
    if is_lasting(error):
        return False
    text = str(error)
    return is_of_brokers(error) or any(words in text for words in (*WORKER_ERRORS, CANCELLED))


def is_of_brokers(error: Exception) -> bool:
    """Whoever has noticed it: this process, or one of Spark's."""
    if isinstance(error, SourceError | PenstockError):
        return True
    own = [kind for kind, _ in OWN_ERROR.findall(str(error))]
    return bool(own and own[-1] in _OWN_PASSING)


def line_of(error: Exception) -> str:
    """What it says, in one line; of a task's error, what the task said."""
    text = str(error)
    own, elsewhere = OWN_ERROR.findall(text), PYTHON_ERROR.findall(text)
    if own:
        return str(own[-1][1])
    lines = [line.strip(": ") for line in text.splitlines() if line.strip() and not CALLED.match(line)]
    return str(elsewhere[-1]) if elsewhere else (lines or [type(error).__name__])[0]
