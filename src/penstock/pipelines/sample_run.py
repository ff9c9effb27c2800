"""A small run of what both applications use of Spark, by which the archive of its classes is made.

`python -m penstock.pipelines.sample_run`: does nothing if the archive is there, or another process is making
it. See class_archive.py.
"""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.spark import class_archive, launch
from penstock.spark.defaults import BRIEF, defaults
from penstock.spark.java import SparkSetupError, find_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS: Final = 1_000
MASTER: Final = "local[2]"
LOWEST_PRIORITY: Final = 19


def main() -> None:
    home = launch.spark_home()
    if home is None:
        sys.exit("Spark is not installed: pip install 'penstock[spark]'")
    try:
        make(find_java(), home)
    except SparkSetupError as error:
        sys.exit(str(error))


def make(java: Path, home: Path) -> None:
    archive = class_archive.path(java, home)
    archive.parent.mkdir(parents=True, exist_ok=True)
    with claimed(archive.with_suffix(".lock")) as is_ours:
        if not is_ours or archive.exists():
            return
        failed = class_archive.failed_path(archive)
        try:
            record(java, archive)
        except Exception:  # whatever it is: it would be the same after the next command
            failed.touch()
            raise
        failed.unlink(missing_ok=True)


def record(java: Path, archive: Path) -> None:
    aside = archive.with_suffix(f".{os.getpid()}")
    options = f"{defaults(MASTER)['spark.driver.extraJavaOptions']} {BRIEF}"
    recording = class_archive.recording(java, archive, aside)
    config = {"spark.driver.extraJavaOptions": f"{options} {recording}"}
    with launch.started(MASTER, app_name="sample run", config=config) as started:
        if started is None:
            sys.exit("this Spark is started by its own scripts, and no archive is made for them")
        from penstock.spark import session

        spark = session(MASTER, app_name="sample run", config=config, java=started)
        try:
            use(spark)
            spark.stop()
            started.end()  # Java writes the archive now
            aside.replace(archive)
        finally:
            aside.unlink(missing_ok=True)


@contextmanager
def claimed(lock: Path) -> Iterator[bool]:
    """Whether no other process holds the lock; held until the block ends."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def use(spark: SparkSession) -> None:
    """A batch of Flights, and a stream with a state in Python as that of the heat map."""
    from penstock.pipelines.flights import job
    from penstock.pipelines.flights.generate import AIRPORTS, ITINERARIES, generate

    with tempfile.TemporaryDirectory() as folder:
        generate(ROWS, folder)
        job.run_in(
            spark,
            job.itineraries_file(f"{folder}/{ITINERARIES}"),
            job.airports_file(f"{folder}/{AIRPORTS}"),
            f"{folder}/out",
        )
        (
            spark.readStream.format("rate")
            .load()
            .withWatermark("timestamp", "1 second")
            .selectExpr("0 AS everything", "*")
            .groupBy("everything")
            .applyInPandasWithState(_count, "n bigint", "n bigint", "update", "NoTimeout")
            .writeStream.outputMode("update")
            .foreachBatch(_collect)
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )


def _collect(batch: DataFrame, _: int) -> None:
    batch.collect()


def _count(_: Any, batches: Any, group: Any) -> Any:
    for batch in batches:
        group.update((len(batch),))
        yield batch[["value"]].rename(columns={"value": "n"})


if __name__ == "__main__":
    if "--now" not in sys.argv:
        os.nice(LOWEST_PRIORITY)
    main()
