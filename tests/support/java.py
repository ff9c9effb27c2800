"""Java for tests: a virtual machine that lives for seconds.

It never gains what the better compiler costs, and much of its work is to load the classes of Spark. Run as a
program, this module runs some of Spark once and leaves these classes in the environment, in a form that Java
takes as it is. A Java that cannot make or use such an archive does without it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ARCHIVE = Path(sys.prefix, "spark-classes.jsa")
ARCHIVE_S_MAX = 300
QUIET = "-Xlog:cds*=off"
"""Nothing about an archive of another Java or for other classes: stdout may be somebody's input."""
BRIEF_LIFE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
QUICK_START = f"{BRIEF_LIFE} {QUIET} -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else BRIEF_LIFE


def make_archive() -> None:
    aside = ARCHIVE.with_suffix(f".{os.getpid()}")
    # Java writes the archive when it ends, and holds the pipe until then.
    done = subprocess.run(
        [sys.executable, "-c", "from tests.support.java import use_spark; use_spark()"],
        env=os.environ | {"SPARK_SUBMIT_OPTS": f"{BRIEF_LIFE} {QUIET} -XX:ArchiveClassesAtExit={aside}"},
        capture_output=True,
        text=True,
        timeout=ARCHIVE_S_MAX,
        check=False,
    )
    if done.returncode == 0 and aside.exists():
        aside.replace(ARCHIVE)
    else:
        print(f"no archive of Spark's classes: {done.stderr or done.stdout}", file=sys.stderr)


def use_spark() -> None:
    """What most tests use of it: a batch job, and a stream that keeps a state."""
    from penstock.pipelines.flights import job
    from penstock.pipelines.flights.generate import AIRPORTS, ITINERARIES, generate
    from penstock.spark import session

    with tempfile.TemporaryDirectory() as folder:
        generate(1_000, folder)
        spark = session("local[2]")
        job.run_in(
            spark,
            job.itineraries_file(f"{folder}/{ITINERARIES}"),
            job.airports_file(f"{folder}/{AIRPORTS}"),
            f"{folder}/out",
        )
        counts = spark.readStream.format("rate").load().groupBy("value").count()
        counting = counts.writeStream.outputMode("update").foreachBatch(lambda batch, _: batch.collect())
        counting = counting.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
        counting.start().awaitTermination()
        spark.stop()


if __name__ == "__main__" and not ARCHIVE.exists():
    make_archive()
