"""Java for tests: a virtual machine that lives for seconds, also where Spark's own scripts start it."""

from __future__ import annotations

from typing import Final

from penstock.spark import class_archive, launch
from penstock.spark.defaults import BRIEF
from penstock.spark.java import SparkSetupError, find_java


def archive_options() -> list[str]:
    """What makes Java use the archive of Spark's classes that `make tools` has left; nothing without one."""
    home = launch.spark_home()
    try:
        return [] if home is None else class_archive.options(find_java(), home)
    except SparkSetupError:
        return []


ARCHIVE_OPTIONS: Final = archive_options()
QUICK_START: Final = " ".join([BRIEF, *ARCHIVE_OPTIONS])
