"""`penstock flights` as a user runs it: one clear line when it fails, and never half a results folder.

That it succeeds is shown by the page of the docs, and on a cluster by test_flights_cluster.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.pipelines.flights import job
from penstock.pipelines.flights.generate import generate
from penstock.pipelines.flights.header import CsvError
from penstock.pipelines.flights.output import OutputError
from tests.support import processes
from tests.support.commands import Finished, environment, penstock
from tests.support.java import QUICK_START
from tests.support.wait import wait_until

COMMAND_SECONDS_MAX = 180.0


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    generate(10, str(folder), seed=11)
    return folder


def run(data: Path, out: Path, *, airports: Path | None = None) -> Finished:
    return penstock(
        *("flights", "run", "--master", "local[2]", "--out", str(out)),
        *("--itineraries", str(data / "itineraries.csv")),
        *("--airports", str(airports or data / "airports.csv")),
        timeout_s=COMMAND_SECONDS_MAX,
    )


BAD_FILES = {
    "missing": (None, "no such file"),
    "empty": (b"", "the file is empty"),
    "blank": (b"\n\n", "no header line"),
    "other delimiter": (b"legId|startingAirport|totalFare\na|b|c\n", "no ',' in the header line"),
    "missing column": (b"legId,startingAirport,destinationAirport\n", "missing columns 'travelDuration'"),
}


def complaint_of(data: Path, out: Path, **others: Path) -> str:
    """Of the job that the command runs, which looks at files and folders before it starts Spark."""
    files = {"itineraries": data / "itineraries.csv", "airports": data / "airports.csv"} | others
    with pytest.raises((CsvError, OutputError)) as refused:
        job.run(str(files["itineraries"]), str(files["airports"]), str(out), "local[2]")
    return str(refused.value)


@pytest.mark.parametrize("name", BAD_FILES)
def test_itineraries_that_cannot_be_used(data: Path, tmp_path: Path, name: str) -> None:
    content, complaint = BAD_FILES[name]
    path = tmp_path / "bad.csv"
    if content is not None:
        path.write_bytes(content)
    told = complaint_of(data, tmp_path / "results", itineraries=path)
    assert told.startswith(f"{path}: ")
    assert complaint in told
    assert not (tmp_path / "results").exists()


def test_airports_and_folders_that_cannot_be_used(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "results"
    itineraries = data / "itineraries.csv"
    told = complaint_of(data, out, airports=itineraries)
    assert "'Airport Code'" in told
    assert run(data, out, airports=itineraries).complaint == told
    assert complaint_of(data, out, airports=data) == f"{data}: is a folder, not a file"
    (tmp_path / "file").write_text("x")
    assert "Not a directory" in complaint_of(data, tmp_path / "file")
    told = complaint_of(data, data)
    assert "holds 'airports.csv'" in told
    assert run(data, data).complaint == told
    assert sorted(os.listdir(tmp_path)) == ["data", "file"]
    assert sorted(os.listdir(data)) == ["airports.csv", "itineraries.csv"]


def test_an_interrupted_run_leaves_nothing(data: Path, tmp_path: Path) -> None:
    """SIGTERM is to every command what SIGINT is."""
    generate(120_000, str(data))
    out = tmp_path / "results"
    log = tmp_path / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [
                *(
                    sys.executable,
                    "-m",
                    "penstock",
                    "flights",
                    "run",
                    "--master",
                    "local[1]",
                    "--out",
                    str(out),
                ),
                *("--itineraries", str(data / "itineraries.csv"), "--airports", str(data / "airports.csv")),
            ],
            env=environment() | {"JAVA_TOOL_OPTIONS": QUICK_START},
            stderr=file,
            start_new_session=True,
        )
    try:
        wait_until(lambda: b"stage" in log.read_bytes(), "Spark is at work", timeout_s=120)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 1
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert log.read_bytes().count(b"Traceback") == 0, log.read_text()
    assert sorted(os.listdir(tmp_path)) == ["data", "log"]
    # The JVM and its workers are in the process group of the command.
    wait_until(lambda: not processes.group(process.pid), "no process is left", timeout_s=30)
