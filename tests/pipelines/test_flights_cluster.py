"""The job on a real standalone cluster: a master, a worker and two executors, each a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from penstock.pipelines.flights.generate import generate
from penstock.spark import launch
from penstock.spark.java import find_java, java_home
from tests.support import flights_oracle as oracle
from tests.support.commands import penstock
from tests.support.java import QUICK_START
from tests.support.managed_process import SOURCE
from tests.support.ports import free_port
from tests.support.wait import wait_until

SPARK_HOME = Path(pyspark.__file__).parent
SCALA_VERSION = next(SPARK_HOME.glob("jars/spark-core_*.jar")).name.split("_")[1].split("-")[0]
ROWS = 2_000
START_SECONDS_MAX = 120.0
CLASS_OF = {
    "master": "org.apache.spark.deploy.master.Master",
    "worker": "org.apache.spark.deploy.worker.Worker",
}


@contextlib.contextmanager
def daemon(kind: str, folder: Path, *arguments: str) -> Iterator[Path]:
    """One process of the cluster, and its log."""
    folder.mkdir()
    log = folder / "log"
    # As Spark's scripts would start it, which take a second Java to find that out.
    java = [str(find_java()), "-cp", launch.class_path(SPARK_HOME), "-Xmx256m", *launch.MODULE_OPTIONS]
    own = {
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SCALA_VERSION": SCALA_VERSION,  # a worker that starts executors looks for it
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(SOURCE),
    }
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*java, CLASS_OF[kind], "--host", "127.0.0.1", *arguments],
            env=os.environ | own,
            cwd=folder,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        yield log
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    # Of executors and the driver too, which so asks for two executors.
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"{QUICK_START} -Dspark.executor.cores=1")
    port, web = free_port(), free_port()
    address = f"spark://127.0.0.1:{port}"
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(
            daemon("master", tmp_path / "master", "--port", str(port), "--webui-port", str(web))
        )
        wait_until(
            lambda: b"New state: ALIVE" in log.read_bytes(), "the master is up", timeout_s=START_SECONDS_MAX
        )
        options = ("--webui-port", str(free_port()), "--cores", "2", "--memory", "2g")
        work = ("--work-dir", str(tmp_path / "worker" / "work"))
        stack.enter_context(daemon("worker", tmp_path / "worker", *options, *work, address))
        wait_until(lambda: b"Registering worker" in log.read_bytes(), "a worker", timeout_s=START_SECONDS_MAX)
        yield address


def test_a_standalone_cluster_gives_the_same_results(master: str, tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "results"
    generate(ROWS, str(data), seed=21)
    finished = penstock(
        *("flights", "run", "--master", master, "--out", str(out)),
        *("--itineraries", str(data / "itineraries.csv"), "--airports", str(data / "airports.csv")),
        timeout_s=240,
    )
    assert finished.code == 0, finished.err
    assert f"{ROWS:,} rows read, 0 rejected" in finished.lines
    assert json.loads((out / "summary.json").read_text())["rows_read"] == ROWS
    oracle.check_results(out, oracle.answer(data / "itineraries.csv", data / "airports.csv"))
    executors = list((tmp_path / "worker" / "work").rglob("stderr"))
    assert len(executors) == 2, "data was to go from one to the other"
