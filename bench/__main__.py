"""`python -m bench`: run the measurements, show the table, write it as Markdown."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from bench.machine import facts
from bench.measure import (
    before,
    connections,
    consume,
    failover,
    flights,
    flights_service,
    http_produce,
    latency,
    partitions,
    postgres,
    produce,
    pubsub,
    replicated,
    scan,
    startup,
    traffic,
    transactions,
    websocket_latency,
)
from bench.notes import NOTES
from bench.process import UnavailableError
from bench.session import Session
from bench.stats import Mark
from bench.table import Row, failed, left_out, markdown, rich_table

FULL_RUN_OUT: Final = Path("docs/benchmarks.md")
MEASUREMENTS: Final[dict[str, Callable[[Session], list[Row]]]] = {
    "produce": produce.measure_os,
    "commit": produce.measure_commit,
    "postgres": postgres.measure,
    "http": http_produce.measure,
    "consume": consume.measure,
    "latency": latency.measure,
    "websocket": websocket_latency.measure,
    "transactions": transactions.measure,
    "replicated": replicated.measure,
    "failover": failover.measure,
    "startup": startup.measure,
    "pubsub": pubsub.measure,
    "connections": connections.measure,
    "partitions": partitions.measure,
    "flights": flights.measure,
    "service": flights_service.measure,
    "scan": scan.measure,
    "traffic": traffic.measure,
    "before": before.measure,
}


QUICK_SECONDS: Final = 90
FULL_SECONDS: Final = 3_600
QUICK: Final = ("produce", "consume", "startup", "pubsub", "connections")


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help=f"short rounds; without --only: {', '.join(QUICK)}"
    )
    parser.add_argument(
        "--only", nargs="+", choices=MEASUREMENTS, metavar="NAME", help=", ".join(MEASUREMENTS)
    )
    parser.add_argument("--rounds", type=int, help="rounds that count (default 5; quick: 2)")
    parser.add_argument("--out", type=Path, help=f"Markdown file to write (a full run: {FULL_RUN_OUT})")
    given = parser.parse_args()
    # A plain SIGTERM would skip the exit handlers that end the servers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    budget = QUICK_SECONDS if given.quick else FULL_SECONDS
    seconds = 0.5 if given.quick else 3.0
    session = Session(
        rounds=given.rounds or (2 if given.quick else 5),
        seconds=seconds,
        quick=given.quick,
        budget_seconds=budget,
    )
    console = Console()
    try:
        described = facts(" ".join(sys.argv[1:]) or "none")
        rows = run(session, given.only or (QUICK if given.quick else list(MEASUREMENTS)), console)
        described["servers"] = ", ".join(f"{name} {number}" for name, number in session.versions.items())
    finally:
        session.close()
    console.print(rich_table(rows))
    partial_run = given.quick or given.only
    out: Path | None = given.out or (None if partial_run else FULL_RUN_OUT)
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(markdown(rows, described, NOTES))
    return 1 if any(row.mark is Mark.FAILED for row in rows) else 0


def run(session: Session, names: Sequence[str], console: Console) -> list[Row]:
    """A measurement that fails says so in its row and does not take the others with it."""
    rows: list[Row] = []
    for name in names:
        if session.out_of_time:
            rows.append(left_out(name))
            continue
        began = time.monotonic()
        console.print(f"{name} …", end=" ")
        try:
            rows += MEASUREMENTS[name](session)
        except (RuntimeError, UnavailableError, subprocess.TimeoutExpired) as error:
            rows.append(failed(name, str(error)))
        console.print(f"{time.monotonic() - began:.0f} s")
    return rows


if __name__ == "__main__":
    sys.exit(main())
