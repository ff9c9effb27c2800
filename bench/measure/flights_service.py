"""The Flights service beside DuckDB: upload, all four queries, their results; one job, and eight at once."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench import targets
from bench.measure.flights import ROWS, THREADS, generate
from bench.process import UnavailableError, free_port, require_module, run_load, spawn, stop, wait_until
from bench.table import Row, compared, unavailable

if TYPE_CHECKING:
    import subprocess

    from bench.session import Session

PENSTOCK: Final = (sys.executable, "-m", "penstock")
WARM_UP_ROUNDS: Final = 2
PARTS: Final = 8
READY_S_MAX: Final = 120
WHAT: Final = f"flights service, {ROWS / 1e6:.2f} M rows, one broker, flush=os, warm"


def measure(session: Session) -> list[Row]:
    session.use()
    at_once = f"{WHAT}: {PARTS} jobs of 1/{PARTS} at once"
    try:
        require_module("duckdb")
        require_module("pyspark")
        folder = session.directory("flights-service")
        generate(session.quick, folder)
        parts = split(folder)
        http, processes = start(folder)
    except UnavailableError as error:
        return [
            unavailable(WHAT, "DuckDB", targets.FLIGHTS_SERVICE_VS_DUCKDB, str(error)),
            unavailable(at_once, "one job", targets.EIGHT_JOBS_VS_ONE, str(error)),
        ]
    try:
        seconds = rounds(session, http, folder, parts)
    finally:
        for process in reversed(processes):
            stop(process)
    ours, duck, eight = (seconds[name] for name in ("one", "duckdb", "eight"))
    return [
        compared(WHAT, f"DuckDB, {THREADS} threads", ours, duck, "s", targets.FLIGHTS_SERVICE_VS_DUCKDB),
        compared(at_once, "one job", eight, ours, "s", targets.EIGHT_JOBS_VS_ONE),
    ]


def start(folder: Path) -> tuple[str, list[subprocess.Popen[bytes]]]:
    port, http_port = free_port(), free_port()
    up_log, serve_log = folder / "up.log", folder / "serve.log"
    up = spawn(
        [*PENSTOCK, "up", "--port", port, "--http-port", http_port, "--data", folder / "data",
         "--flush", "os"],
        up_log,
    )  # fmt: skip
    processes = [up]
    try:
        wait_until(lambda: b"ready kafka=" in up_log.read_bytes(), "penstock up", up, READY_S_MAX)
        serve = spawn(
            [*PENSTOCK, "flights", "serve", "--bootstrap", f"127.0.0.1:{port}",
             "--master", f"local[{THREADS}]", "--data", folder / "service"],
            serve_log,
        )  # fmt: skip
        processes.append(serve)
        wait_until(lambda: b"ready flights" in serve_log.read_bytes(), "the service", serve, READY_S_MAX)
    except BaseException:
        for process in reversed(processes):
            stop(process)
        raise
    return f"http://127.0.0.1:{http_port}", processes


def split(folder: Path) -> list[Path]:
    """The itineraries in eight files of as many rows, each with the header."""
    lines = (folder / "itineraries.csv").read_bytes().splitlines(keepends=True)
    header, rows = lines[0], lines[1:]
    parts = []
    for number in range(PARTS):
        part = folder / f"part-{number}"
        part.mkdir()
        (part / "itineraries.csv").write_bytes(header + b"".join(rows[number::PARTS]))
        (part / "airports.csv").write_bytes((folder / "airports.csv").read_bytes())
        parts.append(part)
    return parts


def rounds(session: Session, http: str, folder: Path, parts: list[Path]) -> dict[str, list[float]]:
    """Interleaved; the first rounds warm the JVM up and do not count. Different results are a failure."""
    import duckdb

    from bench.peers.flights_duckdb import run_duckdb

    seconds: dict[str, list[float]] = {"one": [], "duckdb": [], "eight": []}
    for number in range(WARM_UP_ROUNDS + session.rounds):
        if number > WARM_UP_ROUNDS and session.out_of_time:
            break
        one = run_load("flights_jobs", http=http, folders=[str(folder)])
        eight = run_load("flights_jobs", http=http, folders=[str(part) for part in parts])
        began = time.perf_counter()
        with duckdb.connect() as database:
            expected = run_duckdb(database, folder, folder / f"duckdb-{number}", THREADS)
        took = time.perf_counter() - began
        if one["rows"] != [expected] or different(eight["rows"], expected):
            raise RuntimeError(f"different results: {expected}, {one['rows']}, {eight['rows']}")
        if number >= WARM_UP_ROUNDS:
            seconds["one"].append(one["seconds"])
            seconds["eight"].append(eight["seconds"])
            seconds["duckdb"].append(took)
    return seconds


def different(parts: list[dict[str, int]], whole: dict[str, Any]) -> bool:
    """Of queries 1 and 2 every row is in one of the parts; the others look at all rows of a file."""
    found: Counter[str] = Counter()
    for part in parts:
        found.update(part)
    return any(found[query] != whole[query] for query in ("q1", "q2"))
