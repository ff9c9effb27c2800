"""Clients of the Flights service, a thread and a job each: from the first chunk to the last result row."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.load.arguments import arguments, result
from penstock.flights import FlightsClient
from penstock.flights.jobs import QUERIES


def run(http: str, data: str) -> dict[str, int]:
    """How many rows each query has."""
    folder = Path(data)
    with FlightsClient(http, timeout_s=60) as client:
        job = client.create()
        client.upload(job, itineraries=str(folder / "itineraries.csv"), airports=str(folder / "airports.csv"))
        rows = {}
        for query in QUERIES:
            rows[query] = sum(block.count(b"\n") for block in client.result_lines(job, query)) - 1
        client.delete(job)
    return rows


def main() -> None:
    given = arguments()
    folders: list[str] = given["folders"]
    with ThreadPoolExecutor(len(folders)) as pool:
        began = time.perf_counter()
        rows = list(pool.map(lambda folder: run(given["http"], folder), folders))
        result(seconds=time.perf_counter() - began, rows=rows)


if __name__ == "__main__":
    main()
