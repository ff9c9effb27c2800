"""Memory does not grow with the file: one more than twice the driver's heap goes through it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import psutil

from penstock.pipelines.flights.generate import generate
from tests.support.java import QUICK_START
from tests.support.managed_process import SOURCE
from tests.support.processes import descendants

ROWS = int(os.environ.get("PENSTOCK_FLIGHTS_ROWS", "950000"))
HEAP_MB = 160
FILE_IN_HEAPS_MIN = 2
WORKER_MB_MAX = 300
PROGRAM = """
import sys
from penstock.pipelines.flights.job import run

folder = sys.argv[1]
run(
    f"{folder}/itineraries.csv",
    f"{folder}/airports.csv",
    f"{folder}/results",
    "local[2]",
    # Spark sets 300 MB of every heap aside and refuses to start with less; this lets it.
    config={"spark.driver.memory": sys.argv[2] + "m", "spark.testing.reservedMemory": str(100 * 1024 * 1024)},
)
"""


def largest_worker_mb(process: subprocess.Popen[bytes], ended: threading.Event) -> float:
    """The most that any Python worker held, as far as looking several times a second tells."""
    most = 0.0
    while not ended.wait(0.2):
        for pid in descendants(process.pid):
            with suppress(psutil.NoSuchProcess):
                child = psutil.Process(pid)
                if "python" in child.name():
                    most = max(most, child.memory_info().rss / 1e6)
    return most


def test_a_file_more_than_twice_the_heap(tmp_path: Path) -> None:
    generate(ROWS, str(tmp_path))
    size_mb = (tmp_path / "itineraries.csv").stat().st_size / 1e6
    assert size_mb > FILE_IN_HEAPS_MIN * HEAP_MB
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, tmp_path, str(HEAP_MB)],
        env=os.environ | {"PYTHONPATH": str(SOURCE), "JAVA_TOOL_OPTIONS": QUICK_START},
        stderr=subprocess.PIPE,
    )
    ended, seen = threading.Event(), []
    watcher = threading.Thread(target=lambda: seen.append(largest_worker_mb(process, ended)))
    watcher.start()
    try:
        _, stderr = process.communicate()
    finally:
        ended.set()
        watcher.join()
    assert process.returncode == 0, stderr.decode()[-2000:]
    summary = json.loads((tmp_path / "results" / "summary.json").read_text())
    print(f"{size_mb:.0f} MB through a heap of {HEAP_MB} MB, workers of at most {seen[0]:.0f} MB: {summary}")
    assert summary["rows_read"] == ROWS
    assert 0 < seen[0] < WORKER_MB_MAX
