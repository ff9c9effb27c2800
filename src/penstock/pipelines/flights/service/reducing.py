"""From chunks to what the queries need of them: what the tasks of a micro-batch do with the rows that came.

A task has parts of some jobs. It writes a file for each, as reduction.py leaves the rows, and gives back the
rows of queries 1 and 2, which are known as soon as a row is, and figures. What goes wrong with a part is
given back, too: it is the end of that job, and of no other.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.pipelines.flights.csv_blocks import BLOCK_BYTES, TOO_LONG, blocks, parse_block, rejects
from penstock.pipelines.flights.geography import Airports
from penstock.pipelines.flights.header import Layout, parse_header
from penstock.pipelines.flights.reduction import ROUTE, SCHEMA, for_each, reduce_rows, stopovers_of
from penstock.pipelines.flights.schemas import (
    AIRPORT_COLUMNS,
    AIRPORT_DELIMITER,
    ITINERARY_COLUMNS,
    ITINERARY_DELIMITER,
)
from penstock.pipelines.flights.service.folder import new_name, put_in_place
from penstock.pipelines.flights.service.ledger import LOST, AirportsReady
from penstock.pipelines.flights.text import csv_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.pipelines.flights.service.entry import Piece
    from penstock.pipelines.flights.service.plan import Part

OUTCOMES: Final = (
    "job string, query string, rows bigint, text string, "
    "file string, rows_read bigint, rows_rejected bigint, error string"
)
OUTCOME_SCHEMA: Final = pa.schema(
    [
        ("job", pa.string()),
        ("query", pa.string()),
        ("rows", pa.int64()),
        ("text", pa.string()),
        ("file", pa.string()),
        ("rows_read", pa.int64()),
        ("rows_rejected", pa.int64()),
        ("error", pa.string()),
    ]
)
AIRPORTS_REMEMBERED: Final = 16
REASON_CHARACTERS_MAX: Final = 300


@dataclass
class Outcome:
    """What became of a job's rows, of all tasks together."""

    files: list[str] = field(default_factory=list)
    rows_read: int = 0
    rows_rejected: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    texts: list[tuple[str, int, str]] = field(default_factory=list)
    """Query, how many rows, and these."""
    error: str | None = None


def reduce_parts(spark: SparkSession, shares: Sequence[Sequence[Part]], folder: str) -> dict[str, Outcome]:
    """One Spark job for all of them, with a task for each share."""
    if not shares:
        return {}
    tasks = len(shares)
    found = (
        spark.range(0, tasks, 1, tasks).mapInArrow(partial(_task, shares=shares, folder=folder), OUTCOMES)
    ).collect()
    outcomes: dict[str, Outcome] = {}
    for row in found:
        outcome = outcomes.setdefault(row["job"], Outcome())
        if row["error"] is not None:
            outcome.error = row["error"]
        elif row["query"] is not None:
            outcome.rows[row["query"]] += row["rows"]
            outcome.texts.append((row["query"], row["rows"], row["text"]))
        else:
            outcome.files.append(row["file"])
            outcome.rows_read += row["rows_read"]
            outcome.rows_rejected += row["rows_rejected"]
    return outcomes


def _task(
    batches: Iterable[pa.RecordBatch], shares: Sequence[Sequence[Part]], folder: str
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for part in shares[number]:
                rows = _guarded(part, folder)
                columns = {name: [row.get(name) for row in rows] for name in OUTCOME_SCHEMA.names}
                yield pa.RecordBatch.from_pydict(columns, OUTCOME_SCHEMA)


def _guarded(part: Part, folder: str) -> list[dict[str, Any]]:
    try:
        return reduce_part(part, os.path.join(folder, part.job, f"{new_name()}.arrow"))
    except Exception as error:  # whatever it is: it must not be the end of other jobs
        return [{"job": part.job, "error": reason(error)}]


def reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return LOST
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:REASON_CHARACTERS_MAX]


def reduce_part(part: Part, path: str) -> list[dict[str, Any]]:
    """Writes the file; rows as OUTCOMES has them."""
    found: list[dict[str, Any]] = []
    read = rejected = 0
    rows = parsed(part.pieces, layout_of_itineraries(part.header))
    with put_in_place(path, lasting=True) as file, pa.ipc.new_file(file, SCHEMA) as writer:
        for batch in reduce_rows(rows, airports_at(part.airports), part.fastest_of_all):
            writer.write_batch(batch)
            if batch["flights"].null_count:
                for query, result in (("q1", many_stopovers(batch)), ("q2", far(batch))):
                    for number, text in texts(result):
                        found.append({"job": part.job, "query": query, "rows": number, "text": text})
            else:
                counted = batch["flights"]
                read += pc.sum(counted).as_py() or 0
                rejected += pc.sum(counted.filter(pc.is_valid(batch["rejected"]))).as_py() or 0
    found.append({"job": part.job, "file": path, "rows_read": read, "rows_rejected": rejected})
    return found


def layout_of_itineraries(header: str) -> Layout:
    return parse_header(header.encode(), ITINERARY_COLUMNS, ITINERARY_DELIMITER, "itineraries.csv")


def parsed(pieces: Iterable[Piece], layout: Layout) -> Iterator[pa.RecordBatch]:
    for block in joined(_blocks(pieces)):
        if block is None:
            yield rejects(layout, [TOO_LONG])
        else:
            yield from parse_block(block, layout)


def _blocks(pieces: Iterable[Piece]) -> Iterator[bytes | None]:
    with ExitStack() as opened:
        files: dict[str, Any] = {}
        for piece in pieces:
            if piece.path not in files:
                files[piece.path] = opened.enter_context(open(piece.path, "rb", buffering=0))
            start, end = piece.position, piece.position + piece.length
            yield from blocks(files[piece.path], start, end, min(BLOCK_BYTES, piece.length + 1))


def joined(found: Iterable[bytes | None]) -> Iterator[bytes | None]:
    """Small blocks together: what a block costs besides its rows does not depend on its size."""
    waiting: list[bytes] = []
    size = 0
    for block in found:
        if block is None:
            yield None
            continue
        waiting.append(block)
        size += len(block)
        if size > BLOCK_BYTES // 2:
            yield waiting[0] if len(waiting) == 1 else b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def many_stopovers(details: pa.RecordBatch) -> pa.RecordBatch:
    """Query 1, with the columns of its result; as the transform of the same name."""
    rows = details.filter(details["many"])
    columns = {name: rows[name] for name in ("legId", *ROUTE, "totalFare")}
    columns["stopovers"] = for_each(rows["arrivals"], stopovers_of, pa.string())
    return pa.RecordBatch.from_pydict(columns)


def far(details: pa.RecordBatch) -> pa.RecordBatch:
    """Query 2, likewise."""
    rows = details.filter(details["far"])
    return rows.select(["legId", *ROUTE, "totalTravelDistance"])


def texts(result: pa.RecordBatch) -> Iterator[tuple[int, str]]:
    if result.num_rows:
        yield result.num_rows, csv_text(result)


@lru_cache(AIRPORTS_REMEMBERED)
def airports_at(path: str) -> Airports:
    """As `write_airports` left them; a file never changes."""
    with open(path, encoding="utf-8") as file:
        return Airports.from_json(file.read())


def write_airports(ready: AirportsReady, folder: str) -> str:
    """The positions of a job's airports in one file; where that is."""
    layout = parse_header(ready.header.encode(), AIRPORT_COLUMNS, AIRPORT_DELIMITER, "airports.csv")
    airports = Airports.of_rows(
        row
        for batch in parsed(ready.pieces, layout)
        for row in zip(*(batch[name].to_pylist() for name in AIRPORT_COLUMNS), strict=True)
    )
    path = os.path.join(folder, ready.job, f"airports-{new_name()}.json")
    with put_in_place(path, lasting=True) as file:
        file.write(airports.to_json().encode())
    return path
