"""What the service writes: rows of results, their ends, and states of jobs, as records. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from penstock.flights.records import result_end_headers, rows_headers
from penstock.flights.topics import JOBS, RESULTS
from penstock.pipelines.flights.service.ledger import results_partition

if TYPE_CHECKING:
    from penstock.flights.records import ResultEnd
    from penstock.spark.rows import Row

RECORD_BYTES_MAX: Final = 512 * 1024
"""Half of what brokers take unless they are told otherwise; a single line may be longer."""
JOBS_PARTITION: Final = 0

Text = tuple[str, int, str]
"""Query, how many rows, and these, as lines of CSV."""


def result_rows(job: str, texts: Iterable[Text]) -> Iterator[Row]:
    for query, number, text in texts:
        for rows, part in parts(number, text):
            headers: list[tuple[str, bytes | None]] = [*rows_headers(query, rows)]
            yield RESULTS, part.encode(), job.encode(), results_partition(job), headers


def endings(found: Iterable[tuple[str, ResultEnd]]) -> Iterator[Row]:
    for job, end in found:
        yield RESULTS, None, job.encode(), results_partition(job), [*result_end_headers(end)]


def states(changed: Iterable[tuple[str, bytes | None]]) -> Iterator[Row]:
    for job, value in changed:
        yield JOBS, value, job.encode(), JOBS_PARTITION, None


def parts(rows: int, text: str, bytes_max: int = RECORD_BYTES_MAX) -> Iterator[tuple[int, str]]:
    """Lines of text in parts that fit into a record, each with how many lines it has."""
    if len(text) * 4 <= bytes_max or len(text.encode()) <= bytes_max:
        yield rows, text
        return
    part: list[str] = []
    size = 0
    for line in text.removesuffix("\n").split("\n"):
        length = len(line.encode()) + 1
        if part and size + length > bytes_max:
            yield len(part), "".join(part)
            part, size = [], 0
        part.append(line + "\n")
        size += length
    yield len(part), "".join(part)
