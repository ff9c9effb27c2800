"""Work on one job alone, when it is to be found out which job is to blame for a failure.

That a worker dies is the fault of the job that it works on only if it happens every time: workers are killed
for other reasons, too. So such work is tried some times before the job is given up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from penstock.pipelines.flights.service.failures import CANCELLED, is_passing
from penstock.spark.failures import SPARK_ERRORS, line_of

TRIES: Final = 5

T = TypeVar("T")


def alone(work: Callable[[], T]) -> T | str:
    """What comes of it; or why nothing does, and never will."""
    reason = ""
    for _ in range(TRIES):
        try:
            return work()
        except SPARK_ERRORS as error:
            if CANCELLED in str(error):
                raise  # nobody wants to know any more
            reason = line_of(error)
            if not is_passing(error):
                break
    return reason
