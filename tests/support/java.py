"""Java for tests: a virtual machine that lives for seconds.

It never gains what the better compiler costs, and most of its work is to load the classes of Spark. `python -m
tests.support.java` runs some of Spark once and leaves these classes in the environment in a form that Java
takes as it is. A Java that cannot make or use such an archive does without it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
ARCHIVE = Path(sys.prefix, "spark-classes.jsa")
ARCHIVE_S_MAX = 180
SPARK_OPTIONS = "SPARK_SUBMIT_OPTS"


def quick_start() -> str:
    """Options for Java."""
    return f"{QUICK_START} -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else QUICK_START


def make_archive() -> None:
    aside = ARCHIVE.with_suffix(f".{os.getpid()}")
    environment = os.environ | {SPARK_OPTIONS: f"{QUICK_START} -XX:ArchiveClassesAtExit={aside}"}
    # Java writes the archive when it ends, and holds the pipe until then.
    done = subprocess.run(
        [sys.executable, "-c", "from tests.support.java import use_spark; use_spark()"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=ARCHIVE_S_MAX,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stderr)
    if aside.exists():
        aside.replace(ARCHIVE)


def use_spark() -> None:
    """What most tests use of it."""
    from penstock.pipelines.flights import job
    from penstock.pipelines.flights.generate import Sizes, generate
    from penstock.spark import session

    with tempfile.TemporaryDirectory() as folder:
        spark = session()
        ...


if __name__ == "__main__" and not ARCHIVE.exists():
    make_archive()
