"""The results of a job as files, the same that the batch job writes, for who has access to the folder.

Rows of queries 1 and 2 are found again in the reduced files: they were written to the log as they came. The
files of a job are there completely or not at all, and before the log says that the job is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.pipelines.flights.output import Summary, results_folder
from penstock.pipelines.flights.service.computing import read_file
from penstock.pipelines.flights.service.reducing import far, many_stopovers
from penstock.pipelines.flights.text import csv_text

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.pipelines.flights.service.computing import Answered


def write_result_files(folder: Path, job: str, reduced: Iterable[str], answered: Answered) -> None:
    """OutputError or OSError if that is not possible."""
    with results_folder(str(folder / job)) as results:
        results.write_results(_texts(job, reduced, answered))
        results.write_summary(Summary(**answered.summary))


def _texts(job: str, reduced: Iterable[str], answered: Answered) -> Iterator[tuple[str, str]]:
    for path in reduced:
        for details in read_file(job, path, _details):
            for query, found in (("q1", many_stopovers(details)), ("q2", far(details))):
                if found.num_rows:
                    yield query, csv_text(found)
    for query, _, text in answered.texts:
        yield query, text


def _details(_job: str, rows: pa.RecordBatch) -> pa.RecordBatch | None:
    """Flights, and not figures of routes."""
    return rows if rows["flights"].null_count else None
