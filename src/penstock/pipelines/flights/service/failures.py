"""Which errors pass by themselves: what then has to be done is the same again."""

from __future__ import annotations

from typing import Final

from penstock.client.errors import PenstockError
from penstock.spark.errors import OptionError, SinkFencedError, SourceError
from penstock.spark.failures import own_kind

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
_PASSING_IN_TASKS: Final = ("SourceError", "NotWrittenError", "DataLossError")


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
    return isinstance(error, SourceError | PenstockError) or own_kind(error) in _PASSING_IN_TASKS
