"""The one place that builds a Spark session.

What is set here are defaults for a laptop and for tests: what the caller gives in `config` wins, and so does
what `spark-submit` was told. A session that runs already in this process is used as it is, and only learns
the data source.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

try:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession
except ImportError as error:
    raise ImportError("Spark is not installed: pip install 'penstock[spark]'") from error

from penstock.spark import connector, launch
from penstock.spark.datasource import PenstockDataSource
from penstock.spark.defaults import defaults
from penstock.spark.java import SparkSetupError, java_home

SET_BY_STREAMS: Final = (
    "SPARK_AUTH_SOCKET_TIMEOUT",
    "SPARK_BUFFER_SIZE",
    "SPARK_LOCAL_DIRS",
    "SPARK_PYTHON_RUNTIME",
)
"""Variables for Python processes that Spark adds to a data source when a stream begins to read from it: to a
map that it may be writing into the tasks of another stream of the same source at that moment, and those then
cannot be read. In a map that has them already it only changes values."""


def session(
    master: str | None = None,
    *,
    app_name: str = "penstock",
    config: Mapping[str, str] | None = None,
    java: launch.Java | None = None,
    with_source: bool = True,
) -> SparkSession:
    """A session with the data source `penstock`.

    `master` is Spark's: `local[2]`, `spark://host:7077`; without one, what `spark-submit` was told, or else
    all cores of this machine. Raises SparkSetupError when Spark cannot be started here.

    `java` is a process that was started earlier for the same master, name and configuration. `with_source`
    is for those who read no topic: to register the source costs Spark the start of a Python process.
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
    if java is None:
        java = launch.start(launch.settings(master, app_name, config))
    with _environment(java):
        try:
            spark = builder.getOrCreate()
        except Exception as error:
            raise SparkSetupError(f"Spark does not start: {_first_line(error)}") from error
    if java is not None:
        _hold(java)
    for name in SET_BY_STREAMS:
        spark.sparkContext.environment.setdefault(name, "")
    if with_source:
        spark.dataSource.register(PenstockDataSource)
    connector.install()
    return spark


def _hold(java: launch.Java) -> None:
    """As PySpark holds a Java that it has started: for as long as its end of the connection lives."""
    java.is_used = True
    assert SparkContext._gateway is not None
    SparkContext._gateway.proc = java.process


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


@contextmanager
def _environment(java: launch.Java | None) -> Iterator[None]:
    """What Spark's start takes from the environment, set for as long as it takes.

    Its workers must be the Python that runs this, where penstock is installed, and not the first on the path.
    """
    settings = {"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON") or sys.executable}
    if java is not None:
        port, secret = java.connection()
        settings |= {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    elif SparkContext._gateway is None and not _is_submitted():
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
