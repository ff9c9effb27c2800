"""The Flights job beside DuckDB and beside plain Spark: same file, same run, same results.

Warm: a session that has answered before. Cold: the whole command `penstock flights run`, JVM included, and
beside it the plain script as a command of its own.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import targets
from bench.process import UnavailableError
from bench.table import Row, compared, unavailable

if TYPE_CHECKING:
    from bench.session import Session

ROWS = 1_440_000
QUICK_ROWS = 200_000
WARM_UP_ROUNDS = 3
THREADS = 2
WHAT = f"flights, {ROWS / 1e6:.2f} M rows, warm"
Counts = dict[str, int]
Version = Callable[[Path, Path], Counts]


def measure(session: Session) -> list[Row]:
    session.use()
    try:
        versions, stop = prepare()
    except ImportError as error:
        reason = f"{error.name} is not installed"
        return [
            unavailable(WHAT, "DuckDB", targets.FLIGHTS_VS_DUCKDB, reason),
            unavailable(WHAT, "plain Spark", targets.FLIGHTS_VS_PLAIN_SPARK, reason),
        ]
    folder = session.directory("flights")
    generate(session.quick, folder)
    try:
        seconds = rounds(session, versions, folder)
    finally:
        stop()
    ours, duck, plain = (seconds[name] for name in ("penstock", "duckdb", "plain"))
    # "faster" is a speed: the ratio of the rates, not of the times.
    return [
        compared(WHAT, f"DuckDB, {THREADS} threads", ours, duck, "s", targets.FLIGHTS_VS_DUCKDB),
        compared(
            f"{WHAT}, runs per minute",
            "plain Spark",
            [60 / value for value in ours],
            [60 / value for value in plain],
            "/min",
            targets.FLIGHTS_VS_PLAIN_SPARK,
        ),
        *cold(session, folder),
    ]


def prepare() -> tuple[dict[str, Version], Callable[[], None]]:
    import duckdb

    from bench.peers.flights_duckdb import run_duckdb
    from bench.peers.flights_plain import run_plain
    from penstock.pipelines.flights import job
    from penstock.spark import session as spark_session

    spark = spark_session(f"local[{THREADS}]")

    def ours(data: Path, out: Path) -> Counts:
        tables = (
            job.itineraries_file(str(data / "itineraries.csv")),
            job.airports_file(str(data / "airports.csv")),
        )
        return job.run_in(spark, *tables, str(out)).queries

    def duck(data: Path, out: Path) -> Counts:
        with duckdb.connect() as database:
            return run_duckdb(database, data, out, THREADS)

    def plain(data: Path, out: Path) -> Counts:
        return run_plain(spark, data, out)

    return {"penstock": ours, "duckdb": duck, "plain": plain}, spark.stop


def generate(quick: bool, folder: Path) -> None:
    from penstock.pipelines.flights.generate import generate as write_tables

    write_tables(QUICK_ROWS if quick else ROWS, str(folder))


def rounds(session: Session, versions: dict[str, Version], folder: Path) -> dict[str, list[float]]:
    """Interleaved; the first rounds warm the JVM up and do not count. Different results are a failure."""
    seconds: dict[str, list[float]] = {name: [] for name in versions}
    for number in range(WARM_UP_ROUNDS + session.rounds):
        if number > WARM_UP_ROUNDS and session.out_of_time:
            break
        found: dict[str, Any] = {}
        for name, version in versions.items():
            out = folder / f"{name}-{number}"
            began = time.perf_counter()
            found[name] = version(folder, out)
            if number >= WARM_UP_ROUNDS:
                seconds[name].append(time.perf_counter() - began)
        if any(counts != found["penstock"] for counts in found.values()):
            raise RuntimeError(f"different results: {found}")
    return seconds


def cold(session: Session, folder: Path) -> list[Row]:
    """The commands in turn, after one of each: the page cache then has what both read."""
    master = f"local[{THREADS}]"
    tables = ["--itineraries", str(folder / "itineraries.csv"), "--airports", str(folder / "airports.csv")]
    ours: list[float] = []
    plain: list[float] = []
    for number in range(1 + session.rounds):
        run = [sys.executable, "-m", "penstock", "flights", "run", "--master", master, *tables]
        took = seconds_of([*run, "--out", str(folder / f"cold-{number}")])
        script = [sys.executable, "-m", "bench.peers.flights_plain", str(folder)]
        beside = seconds_of([*script, str(folder / f"cold-plain-{number}"), master])
        if number:
            ours.append(took)
            plain.append(beside)
    what = f"{WHAT.removesuffix('warm')}cold: the whole command, JVM included"
    target = targets.FLIGHTS_COLD_VS_PLAIN_SPARK
    return [compared(what, "the plain spark.read.csv script", ours, plain, "s", target)]


def seconds_of(command: list[str]) -> float:
    began = time.perf_counter()
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode:
        raise UnavailableError(finished.stderr.strip())
    return time.perf_counter() - began
