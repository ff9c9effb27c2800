"""Queries 3 and 4, when all rows of a job are reduced: for all jobs that have come so far in one go.

Everything about a job is in its reduced files. They are read by tasks, which give Spark only those rows and
columns that a query needs, with the job they belong to. What is the same for all rows of a job, as the
average fare, comes as a column: a number in the query itself would make it another query, to be compiled
anew.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.pipelines.flights import transforms
from penstock.pipelines.flights.job import Tally
from penstock.pipelines.flights.reduction import DDL, ROUTE, SCHEMA
from penstock.pipelines.flights.text import chunks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.pipelines.flights.service.ledger import Computing

JOB: Final = "job"
AVERAGE: Final = "averageFare"
KEYED_DDL: Final = f"{JOB} string, {DDL}"
ROUTES_DDL: Final = (
    f"{JOB} string, {AVERAGE} double, rejected string, startingAirport string, destinationAirport string, "
    "flights bigint, fares array<double>, counts array<bigint>"
)
ROUTES: Final = ("rejected", *ROUTE, "flights", "fares", "counts")

File = tuple[str, str]
"""A job and one of its files."""


@dataclass
class Answered:
    texts: list[tuple[str, int, str]] = field(default_factory=list)
    """Query, how many rows, and these; of a query in their order."""
    summary: dict[str, Any] = field(default_factory=dict)


def answer(spark: SparkSession, jobs: Sequence[Computing], tasks: int) -> dict[str, Answered]:
    """Queries 3 and 4 of these jobs."""
    files = [(each.job, path) for each in jobs for path in each.reduced]
    timed = partial(
        transforms.durations, keys=[JOB], fastest_of_all=any(each.fastest_of_all for each in jobs)
    )
    tallies = _tallies(timed(_read(spark, files, tasks, _for_totals, KEYED_DDL)), jobs)
    averages = {job: tally.average_fare or 0.0 for job, tally in tallies.items()}
    flights = timed(_read(spark, files, tasks, _timed, KEYED_DDL))
    routes = _read(spark, files, tasks, partial(_routes, averages=averages), ROUTES_DDL)
    results = {
        "q3": transforms.fastest(flights, [JOB]),
        "q4": transforms.expensive(routes, AVERAGE, [JOB]),
    }
    answered = {each.job: Answered() for each in jobs}
    for query, job, number, text in chunks(results, JOB).collect():
        answered[job].texts.append((query, number, text))
        tallies[job].queries[query] += number
    for each in jobs:
        tally = tallies[each.job]
        tally.queries.update(each.rows)
        answered[each.job].summary = asdict(tally.summary(time.time() - each.created_ms / 1000))
    return answered


def _tallies(flights: DataFrame, jobs: Sequence[Computing]) -> dict[str, Tally]:
    found = defaultdict(list)
    for row in transforms.totals(flights, [JOB]).collect():
        found[row[JOB]].append(row)
    return {each.job: Tally(found[each.job]) for each in jobs}


def _read(spark: SparkSession, files: Sequence[File], tasks: int, pick: Any, columns: str) -> DataFrame:
    tasks = max(1, min(tasks, len(files)))
    return spark.range(0, tasks, 1, tasks).mapInArrow(
        partial(_task, files=files, tasks=tasks, pick=pick), columns
    )


def _task(
    batches: Iterable[pa.RecordBatch], files: Sequence[File], tasks: int, pick: Any
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for job, path in files[number::tasks]:
                yield from read_file(job, path, pick)


def read_file(job: str, path: str, pick: Any) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(path) as file, pa.ipc.open_file(file) as reader:
        for index in range(reader.num_record_batches):
            found = pick(job, reader.get_batch(index))
            if found is not None and found.num_rows:
                yield found


def _keyed(job: str, rows: pa.RecordBatch, **more: float) -> pa.RecordBatch:
    columns = [pa.repeat(pa.scalar(job), rows.num_rows)]
    columns += [pa.repeat(pa.scalar(value), rows.num_rows) for value in more.values()]
    return pa.RecordBatch.from_arrays([*columns, *rows.columns], names=[JOB, *more, *rows.schema.names])


def _timed(job: str, rows: pa.RecordBatch) -> pa.RecordBatch | None:
    """Flights that matter to query 3."""
    if not rows["flights"].null_count:
        return None
    return _keyed(job, rows.filter(_is_timed(rows)))


def _is_timed(rows: pa.RecordBatch) -> pa.Array:
    return pc.fill_null(pc.or_kleene(rows["many"], rows["fast"]), False)


def _for_totals(job: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Without the lists of fares: figures of routes, and of flights that may lack a duration."""
    if rows["flights"].null_count:
        rows = rows.filter(_is_timed(rows))
    lists = {"fares", "counts"}
    columns = [
        pa.nulls(rows.num_rows, kind.type) if kind.name in lists else rows[kind.name] for kind in SCHEMA
    ]
    return _keyed(job, pa.RecordBatch.from_arrays(columns, schema=SCHEMA))


def _routes(job: str, rows: pa.RecordBatch, averages: Mapping[str, float]) -> pa.RecordBatch | None:
    if rows["flights"].null_count:
        return None
    return _keyed(job, rows.select(list(ROUTES)), **{AVERAGE: averages[job]})
