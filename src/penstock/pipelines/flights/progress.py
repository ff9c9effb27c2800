"""How far a Spark session is, polled from its status tracker while a job runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Step:
    """Tasks of the stage that runs; the first stage with many tasks is the scan of the file."""

    stage: int
    done: int
    tasks: int


Progress = Callable[[Step], None]


@contextmanager
def watched(spark: SparkSession, progress: Progress) -> Iterator[None]:
    """Calls `progress` from a thread of its own, a few times a second, until the block ends."""
    ended = threading.Event()
    tracker = spark.sparkContext.statusTracker()

    def watch() -> None:
        while not ended.wait(POLL_SECONDS):
            for stage in tracker.getActiveStageIds():
                info = tracker.getStageInfo(stage)
                if info is not None and info.numTasks:
                    progress(Step(stage, info.numCompletedTasks, info.numTasks))

    thread = threading.Thread(target=watch, name="spark-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
