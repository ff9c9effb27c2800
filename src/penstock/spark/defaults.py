"""What a Spark session is set to unless told otherwise: for a laptop, and for tests."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

MIB: Final = 1024 * 1024
DRIVER_MEMORY_MIB_MIN: Final = 1024
DRIVER_MEMORY_MIB_MAX: Final = 4096
LOG4J_PROPERTIES: Final = Path(__file__).with_name("log4j2.properties")
BRIEF: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java that lives for seconds, or whose batches take less than one: the better compiler and the
parallel collector take more time than they gain."""


def defaults(master: str | None) -> dict[str, str]:
    """What we set unless told otherwise."""
    settings = {
        "spark.master": master or "local[*]",
        "spark.driver.memory": f"{_driver_memory_mib()}m",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG4J_PROPERTIES.as_uri()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # A pipeline of some queries compiles more classes than the 100 that Spark keeps, and then compiles
        # all of them again each time it runs; nor does Java ever get to optimise them.
        "spark.sql.codegen.cache.maxEntries": "1000",
    }
    cores = local_cores(settings["spark.master"])
    if cores is not None:
        # Of 200 shuffle partitions, Spark's default, nearly all would be empty here, and each costs a task.
        settings["spark.sql.shuffle.partitions"] = str(max(2, cores))
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    return settings


def local_cores(master: str) -> int | None:
    """The cores of a local master; None for a cluster."""
    found = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?", master)
    if found is None:
        return None
    if found[1] == "*":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(found[1] or 1)


def _driver_memory_mib() -> int:
    """A quarter of the machine, within reason: the broker and the Python workers need theirs."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // MIB
    return min(DRIVER_MEMORY_MIB_MAX, max(DRIVER_MEMORY_MIB_MIN, machine // 4))
