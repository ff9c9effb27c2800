"""The batch job: two CSV files in, a folder of results out. The only place that touches session and files."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError
from pyspark import StorageLevel

from penstock.flights.records import ALL_FLIGHTS, MANY_STOPOVERS, FastestOf
from penstock.pipelines.flights import starting, transforms
from penstock.pipelines.flights.output import ResultsFolder, Summary, results_folder
from penstock.pipelines.flights.progress import Progress, watched
from penstock.pipelines.flights.reading import CsvFile, read_airports, read_itineraries
from penstock.pipelines.flights.schemas import (
    AIRPORT_COLUMNS,
    AIRPORT_DELIMITER,
    ITINERARY_COLUMNS,
    ITINERARY_DELIMITER,
)
from penstock.pipelines.flights.text import chunks
from penstock.spark.failures import SPARK_ERRORS, line_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from penstock.spark.launch import Java

SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"


class JobError(Exception):
    """Spark gave up; the message is one line."""


def run(
    itineraries: str,
    airports: str,
    out: str,
    master: str | None = None,
    *,
    fastest_of: FastestOf = MANY_STOPOVERS,
    progress: Progress = lambda _: None,
    config: Mapping[str, str] | None = None,
    java: Java | None = None,
) -> Summary:
    """Answer the four queries in a session of its own.

    The session is stopped at the end; with `java`, which was started ahead for this one job (starting.py), it
    is left to end with this process. Raises CsvError, OutputError, SparkSetupError or JobError, each with one
    line; the results folder is then as it was before.
    """
    began = time.monotonic()
    tables = itineraries_file(itineraries), airports_file(airports)
    for table in tables:
        table.check()
    with results_folder(out) as folder:
        spark = starting.JOB.session(master, java, config=config, with_source=False)
        limit_shuffles(spark)
        is_done = False
        try:
            summary = answer(spark, *tables, folder, fastest_of=fastest_of, progress=progress, began=began)
            is_done = True
        except SPARK_ERRORS as error:
            raise JobError(f"Spark: {line_of(error)}") from error
        except (Py4JError, ConnectionError) as error:
            raise JobError(
                "Spark: its Java process has died; perhaps spark.driver.memory is too small"
            ) from error
        finally:
            if java is None or not is_done:
                with suppress(Py4JError, ConnectionError):  # nothing is left to be stopped when Java has died
                    spark.stop()
        return summary


def run_in(
    spark: SparkSession,
    itineraries: CsvFile,
    airports: CsvFile,
    out: str,
    *,
    fastest_of: FastestOf = MANY_STOPOVERS,
    progress: Progress = lambda _: None,
) -> Summary:
    """The same in a session that is there."""
    began = time.monotonic()
    itineraries.check()
    airports.check()
    with results_folder(out) as folder:
        return answer(
            spark, itineraries, airports, folder, fastest_of=fastest_of, progress=progress, began=began
        )


def limit_shuffles(spark: SparkSession) -> None:
    """Little is shuffled here: of 200 partitions, Spark's default, nearly all would be empty tasks."""
    context = spark.sparkContext
    if not context.getConf().contains(SHUFFLE_PARTITIONS):
        spark.conf.set(SHUFFLE_PARTITIONS, str(max(2, context.defaultParallelism)))


def itineraries_file(path: str) -> CsvFile:
    return CsvFile(path, ITINERARY_COLUMNS, ITINERARY_DELIMITER)


def airports_file(path: str) -> CsvFile:
    return CsvFile(path, AIRPORT_COLUMNS, AIRPORT_DELIMITER)


def answer(
    spark: SparkSession,
    itineraries: CsvFile,
    airports: CsvFile,
    folder: ResultsFolder,
    *,
    fastest_of: FastestOf,
    progress: Progress,
    began: float,
) -> Summary:
    of_all = fastest_of == ALL_FLIGHTS
    rows = read_itineraries(spark, itineraries, read_airports(spark, airports), of_all)
    flights = transforms.durations(rows, fastest_of_all=of_all).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        with watched(spark, progress):
            tally = Tally(transforms.totals(flights).collect())
            results = queries(flights, tally.average_fare)
            folder.write_results(tally.counted(chunks(results)))
    finally:
        flights.unpersist()
    summary = tally.summary(time.monotonic() - began)
    folder.write_summary(summary)
    return summary


def queries(flights: DataFrame, average_fare: float | None) -> dict[str, DataFrame]:
    return {
        "q1": transforms.many_stopovers(flights),
        "q2": transforms.far(flights),
        "q3": transforms.fastest(flights),
        "q4": transforms.expensive(flights, average_fare or 0.0),
    }


class Tally:
    """What the summary counts, gathered while the results are written."""

    def __init__(self, totals: Iterable[Row]) -> None:
        """Of rows as `transforms.totals` gives them."""
        self.rejected: Counter[str] = Counter()
        self.left_out: dict[str, Counter[str]] = {"q2": Counter(), "q3": Counter()}
        self.queries: Counter[str] = Counter()
        self.flights = 0
        fares = 0.0
        for row in totals:
            if row["rejected"] is not None:
                self.rejected[row["rejected"]] += row["flights"]
            elif row["left_out_q3"] is not None:  # a flight with details, which its route has counted
                self.left_out["q3"][row["left_out_q3"]] += row["flights"]
            else:
                self.flights += row["flights"]
                fares += row["fares"]
                if row["left_out_q2"] is not None:
                    self.left_out["q2"][row["left_out_q2"]] += row["flights"]
        self.average_fare = fares / self.flights if self.flights else None

    def counted(self, chunks: DataFrame) -> Iterator[tuple[str, str]]:
        """Each query with lines of its result; one partition of them is in memory at a time."""
        for query, rows, text in chunks.toLocalIterator(prefetchPartitions=True):
            self.queries[query] += rows
            yield query, text

    def summary(self, seconds: float) -> Summary:
        rejected = sum(self.rejected.values())
        return Summary(
            rows_read=self.flights + rejected,
            rows_rejected=rejected,
            rejected=dict(sorted(self.rejected.items())),
            left_out={query: dict(sorted(reasons.items())) for query, reasons in self.left_out.items()},
            average_fare=self.average_fare,
            queries={query: self.queries[query] for query in ("q1", "q2", "q3", "q4")},
            seconds=round(seconds, 3),
        )
