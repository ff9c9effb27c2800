"""Spark's Java process, started at once and without detours.

PySpark starts `spark-submit`: a shell script that runs one Java to put a command line together, and then a
second one with it. With the pip package of PySpark and nothing set that the script would look at, the command
line is known. So Java is started with it here, before PySpark is even imported: `start` returns at once, the
caller looks at its files and imports meanwhile, and `session` (session_start.py) connects when Java is ready.

Where the user's environment speaks to `spark-submit`, by `SPARK_HOME`, a folder of configuration, arguments
or a class path, there is no short way: `start` returns None and PySpark does as it always does.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Final

from penstock.spark import class_archive
from penstock.spark.defaults import defaults, local_cores
from penstock.spark.java import SparkSetupError, find_java

MAIN_CLASS: Final = "org.apache.spark.deploy.SparkSubmit"
POLL_S: Final = 0.02

OPENED: Final = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
MODULE_OPTIONS: Final = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)
"""What the launcher of Spark 4.3 adds to every command line, but for the module that java.py is about."""

READ_BY_JAVA: Final = frozenset(
    {"SPARK_LOCAL_DIRS", "SPARK_LOCAL_HOSTNAME", "SPARK_LOCAL_IP", "SPARK_PUBLIC_DNS", "SPARK_USER"}
)
"""Variables that Spark itself looks at; all others named so are for its scripts."""
SUBMIT_OPTIONS: Final = "SPARK_SUBMIT_OPTS"
FOR_SCRIPTS: Final = ("HADOOP_CONF_DIR", "PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "YARN_CONF_DIR")
CHANGES_THE_COMMAND: Final = (
    "spark.driver.defaultJavaOptions",
    "spark.driver.extraClassPath",
    "spark.driver.extraLibraryPath",
    "spark.remote",
    "spark.submit.deployMode",
)


WITHOUT_DISCOVERY: Final = {"PYSPARK_DRIVER_PYTHON": "none"}
"""Before Spark takes the first data source that is written in Python, it runs this command, if there is one,
to look for others in all packages named `pyspark_…`. For programs that want none of those."""


class Java:
    """A Java process that becomes Spark's driver, and ends when this process closes its standard input."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        self._folder = tempfile.mkdtemp(prefix="penstock-spark-")
        self._where = Path(self._folder, "connection")
        self.process = subprocess.Popen(  # noqa: S603  # the Java that the user's environment names
            command,
            stdin=subprocess.PIPE,
            env={**environment, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._where)},
            preexec_fn=_ignore_interrupts,  # as PySpark does it
        )
        self.is_used = False

    def connection(self) -> tuple[int, str]:
        """Port and secret, as soon as it listens."""
        while not self._where.exists():
            if self.process.poll() is not None:
                raise SparkSetupError(
                    f"Spark does not start: its Java process ended with {self.process.returncode}"
                )
            time.sleep(POLL_S)
        data = self._where.read_bytes()  # it is renamed to this name when it is complete
        rmtree(self._folder, ignore_errors=True)
        return int.from_bytes(data[:4]), data[8:].decode()

    def discard(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()
        rmtree(self._folder, ignore_errors=True)

    def end(self) -> None:
        """Let it end in its own time, and wait for that."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@contextmanager
def started(
    master: str | None,
    *,
    app_name: str,
    config: Mapping[str, str] | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Iterator[Java | None]:
    """Java on its way while the block prepares `session`, which takes it; it ends with a block that fails."""
    java = start(settings(master, app_name, config), environment)
    try:
        yield java
    finally:
        if java is not None and not java.is_used:
            java.discard()


def make_archive() -> None:
    """For the next time: see class_archive.py."""
    home = spark_home()
    if home is not None:
        class_archive.make_in_background(find_java(), home)


def settings(master: str | None, app_name: str, config: Mapping[str, str] | None) -> dict[str, str]:
    """All of Spark's configuration for a session that nobody else has configured."""
    given = dict(config or {})
    if master is not None:
        given["spark.master"] = master
    return {**defaults(given.get("spark.master")), **given, "spark.app.name": app_name}


def start(configuration: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> Java | None:
    """The process, or None where only Spark's own scripts know how to start it, or one runs already."""
    home = spark_home()
    if home is None or _runs_already() or not is_ours_alone(home, configuration, environment):
        return None
    java = find_java(environment)
    return Java(
        command(java, home, configuration, environment),
        {
            **environment,
            "PYSPARK_PYTHON": environment.get("PYSPARK_PYTHON") or sys.executable,
            "SPARK_CONNECT_MODE": "0",
            **home_for_workers(home, configuration),
        },
    )


def spark_home() -> Path | None:
    """The folder of the pip package, which is not imported for this."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        return None
    home = Path(found.origin).parent
    return home if (home / "jars").is_dir() else None


def is_ours_alone(home: Path, configuration: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    """Nobody has a word in how Java is started but us."""
    return (
        os.name == "posix"
        and not (home / "conf").exists()
        and not any(environment.get(name) for name in FOR_SCRIPTS)
        and not any(key in configuration for key in CHANGES_THE_COMMAND)
        and not any(
            name.startswith("SPARK_") and name not in READ_BY_JAVA and name != SUBMIT_OPTIONS
            for name in environment
        )
    )


def command(
    java: Path, home: Path, configuration: Mapping[str, str], environment: Mapping[str, str]
) -> list[str]:
    """The command line that Spark's launcher would make of the configuration."""
    own = [f"-Xmx{configuration['spark.driver.memory']}"] if "spark.driver.memory" in configuration else []
    own += shlex.split(configuration.get("spark.driver.extraJavaOptions", ""))
    own += shlex.split(environment.get(SUBMIT_OPTIONS, ""))
    pairs = [word for key, value in configuration.items() for word in ("--conf", f"{key}={value}")]
    return [
        str(java),
        "-cp",
        class_path(home),
        *class_archive.options(java, home),
        *own,
        *MODULE_OPTIONS,
        MAIN_CLASS,
        *pairs,
        "pyspark-shell",
    ]


def class_path(home: Path) -> str:
    return f"{home}/conf:{home}/jars/*"


def home_for_workers(home: Path, configuration: Mapping[str, str]) -> dict[str, str]:
    """SPARK_HOME, for clusters alone: with it Python workers import PySpark from the zip archives below.

    These hold no compiled modules, so each worker compiles PySpark anew, which is most of its start. Workers
    on this machine have the package itself.
    """
    return {} if local_cores(configuration["spark.master"]) is not None else {"SPARK_HOME": str(home)}


def _runs_already() -> bool:
    """PySpark keeps its Java until the process ends, also without a session."""
    loaded = sys.modules.get("pyspark.core.context")
    return loaded is not None and loaded.SparkContext._gateway is not None


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
