"""The one place that builds a Spark session.

What is set here are defaults for a laptop and for tests: what the caller gives in `config` wins, and so does
what `spark-submit` was told. A session that runs already in this process is used as it is, and only learns
the data source.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

try:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession
except ImportError as error:
    raise ImportError("Spark is not installed: pip install 'penstock[spark]'") from error

from penstock.spark import connector
from penstock.spark.datasource import PenstockDataSource
from penstock.spark.java import SparkSetupError, java_home

MIB: Final = 1024 * 1024
DRIVER_MEMORY_MIB_MIN: Final = 1024
DRIVER_MEMORY_MIB_MAX: Final = 4096
LOG4J_PROPERTIES: Final = Path(__file__).with_name("log4j2.properties")


def session(
    master: str | None = None, *, app_name: str = "penstock", config: Mapping[str, str] | None = None
) -> SparkSession:
    """A session with the data source `penstock`.

    `master` is Spark's: `local[2]`, `spark://host:7077`; without one, what `spark-submit` was told, or else
    all cores of this machine. Raises SparkSetupError when Spark cannot be started here.
    """
    given = dict(config or {})
    if master is not None:
        given["spark.master"] = master
    builder = SparkSession.builder.appName(app_name)
    if SparkSession.getActiveSession() is None and SparkContext._active_spark_context is None:
        if _is_submitted():
            SparkContext._ensure_initialized()  # its JVM knows what spark-submit was told
        set_elsewhere = SparkConf()
        for key, value in defaults(given.get("spark.master") or set_elsewhere.get("spark.master")).items():
            if not set_elsewhere.contains(key):
                builder = builder.config(key, value)
    for key, value in given.items():
        builder = builder.config(key, value)
    with _environment():
        try:
            spark = builder.getOrCreate()
        except Exception as error:
            raise SparkSetupError(f"Spark does not start: {_first_line(error)}") from error
    spark.dataSource.register(PenstockDataSource)
    connector.install()
    return spark


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


@contextmanager
def own_interrupts() -> Iterator[None]:
    """Spark takes SIGINT for itself when it starts, and would raise in the middle of calls to Java."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _is_submitted() -> bool:
    """spark-submit has started the JVM already, and this process from it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _driver_memory_mib() -> int:
    """A quarter of the machine, within reason: the broker and the Python workers need theirs."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // MIB
    return min(DRIVER_MEMORY_MIB_MAX, max(DRIVER_MEMORY_MIB_MIN, machine // 4))


@contextmanager
def _environment() -> Iterator[None]:
    """What Spark's start takes from the environment, set for as long as it takes.

    Its workers must be the Python that runs this, where penstock is installed, and not the first on the path.
    """
    settings = {"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON") or sys.executable}
    if SparkContext._gateway is None and not _is_submitted():
        settings["JAVA_HOME"] = str(java_home())
    before = {key: os.environ.get(key) for key in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
