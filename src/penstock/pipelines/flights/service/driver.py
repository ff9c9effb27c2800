"""What Spark calls with each micro-batch: two steps, each with one transaction.

The batch N of a query is the batches 2N and 2N+1 of the sink:

    2N      the records that came go through the ledger; rows that can be reduced now are; what queries 1 and
            2 find in them is written, with what has become of the jobs
    2N+1    jobs whose rows are all reduced: queries 3 and 4, and the ends of all results

Whatever dies in between, the sink knows which of them are done, and the ledger is as it was after the last
one: Spark gives the same records again, and what is left is done. The driver holds the sink from before it
loads the ledger, so nobody else can write meanwhile. It lives as long as one run of the query; after any
failure a new one is made.
"""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.flights.topics import REQUESTS, STATE_BYTES_MAX
from penstock.pipelines.flights.output import OutputError
from penstock.pipelines.flights.service import messages
from penstock.pipelines.flights.service.alone import alone
from penstock.pipelines.flights.service.computing import Answered, answer
from penstock.pipelines.flights.service.failures import is_passing
from penstock.pipelines.flights.service.folder import remove, sync
from penstock.pipelines.flights.service.ledger import LOST, Computing, Ledger, Limits, RowsReady
from penstock.pipelines.flights.service.plan import share
from penstock.pipelines.flights.service.reducing import Outcome, reason, reduce_parts, write_airports
from penstock.pipelines.flights.service.result_files import write_result_files
from penstock.pipelines.flights.service.source import arrival
from penstock.pipelines.flights.service.states import read_states, result_ends
from penstock.spark.cluster import Cluster
from penstock.spark.failures import SPARK_ERRORS
from penstock.spark.held_sink import HeldSink
from penstock.spark.sink_state import Batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from penstock.pipelines.flights.service.folder import Folder
    from penstock.spark.options import Connection
    from penstock.spark.rows import Row

SINK_NAME: Final = "flights"
IDENTITY_S_MAX: Final = 60.0
TASKS_PER_CORE: Final = 2
CLOSE_S_MAX: Final = 30.0
FRAMING_BYTES: Final = 4_096
"""What the record of a state has besides its value, and more."""
TOO_SCATTERED: Final = "it came in too many pieces to keep account of: send larger messages, in their order"


class BatchFailedError(Exception):
    """For Spark; why it failed is with the driver."""


class Driver:
    def __init__(
        self, spark: SparkSession, connection: Connection, folder: Folder, limits: Limits, *, wary: bool
    ) -> None:
        """Takes the sink over and loads the ledger. `wary`: this batch failed before, and nobody knows why:
        each job is worked on alone, so that it is known which one is to blame."""
        self._spark = spark
        self._folder = folder
        self._wary = wary
        self._tasks = TASKS_PER_CORE * spark.sparkContext.defaultParallelism
        self._cluster = Cluster(connection)
        self._sink = HeldSink(connection, SINK_NAME, message_bytes_max=STATE_BYTES_MAX)
        self._lock = threading.Lock()
        self._identity: tuple[str, str] | None = None
        self._identified = threading.Event()
        self._ledger = Ledger.load(read_states(connection), limits)
        staged = folder.staged()
        self._ledger.lose(staged)
        self._untold = dict(self._ledger.changed())
        needed = self._ledger.paths()
        self._with_results = self._ledger.with_results()
        folder.sweep(needed, self._with_results)
        self._staged = staged & needed
        self.error: Exception | None = None
        """What the last batch failed with."""
        self.begun: int | None = None
        self.done: int | None = None
        """The last batch."""

    def identify(self, query: str, run: str) -> None:
        """Which query and which run of it this is for, once Spark has said so."""
        self._identity = query, run
        self._identified.set()

    def __call__(self, batch: DataFrame, number: int) -> None:
        try:
            with self._lock:
                self._do(batch, number)
        except Exception as error:
            # Spark runs a regular expression over the text of the exception, and stack traces of Java, which
            # may be in it, are too long for that.
            self.error = error
            raise BatchFailedError("see `error`") from None

    def due(self, now_ms: int) -> list[str]:
        """Jobs for which the request `expire` is to be written; none while a batch is under way.

        Also those that were found lost, which are told with the next batch: so there is one.
        """
        if not self._lock.acquire(blocking=False):
            return []
        try:
            return [*self._untold, *self._ledger.due(now_ms)]
        finally:
            self._lock.release()

    def close(self) -> None:
        """Waits for a batch that is being interrupted: what it still wants to write comes too late."""
        self._lock.acquire(timeout=CLOSE_S_MAX)
        self._sink.close()
        self._cluster.close()

    def _do(self, batch: DataFrame, number: int) -> None:
        self.begun = number
        self._identified.wait(IDENTITY_S_MAX)
        assert self._identity is not None, "Spark has not said which query this is"
        first, second = (Batch(*self._identity, 2 * number + half) for half in (0, 1))
        if not self._sink.has(first):
            self._publish(first, self._take_in(batch))
        if not self._sink.has(second):
            self._publish(second, self._compute())
        self.done = number

    def _publish(self, batch: Batch, rows: Iterable[Row]) -> None:
        changed = self._untold | dict(self._ledger.changed())
        for job, value in changed.items():
            if value is not None and len(value) > STATE_BYTES_MAX - FRAMING_BYTES:
                self._ledger.fail(job, TOO_SCATTERED)
        changed.update(self._ledger.changed())
        if changed:
            ends = messages.endings(self._ledger.endings())
            self._sink.publish(batch, [*rows, *ends, *messages.states(changed.items())])
            self._untold = {}
            self._tidy()

    def _tidy(self) -> None:
        needed = self._ledger.paths()
        remove(self._staged - needed)
        self._staged &= needed
        kept = self._ledger.with_results()
        for job in self._with_results - kept:
            self._folder.remove_results(job)
        self._with_results = kept

    # The first half

    def _take_in(self, batch: DataFrame) -> list[Row]:
        records = batch.collect()
        # Requests last: who has a job deleted means also what came before that.
        records.sort(
            key=lambda row: (row["topic"] == REQUESTS, row["topic"], row["partition"], row["offset"])
        )
        segments = {row["path"] for row in records if row["path"] is not None}
        self._staged |= segments
        self._ledger.apply(map(arrival, records), result_ends(self._cluster))
        self._read_airports()
        written = self._reduce()
        sync(segments & self._ledger.paths())
        return written

    def _read_airports(self) -> None:
        for ready in self._ledger.airports_ready():
            try:
                path = write_airports(ready, str(self._folder.jobs))
            except Exception as error:  # whatever it is: it must not be the end of other jobs
                self._ledger.fail(ready.job, reason(error))
                continue
            self._staged.add(path)
            self._ledger.airports_known(ready.job, path)

    def _reduce(self) -> list[Row]:
        ready = self._ledger.rows_ready()
        outcomes = self._reduced(ready)
        written: list[Row] = []
        for each in ready:
            outcome = outcomes.get(each.job, Outcome())
            self._staged.update(outcome.files)
            if outcome.error is not None:
                self._ledger.fail(each.job, outcome.error)
                continue
            written += messages.result_rows(each.job, outcome.texts)
            self._ledger.reduced(
                each.job,
                outcome.files,
                rows_read=outcome.rows_read,
                rows_rejected=outcome.rows_rejected,
                rows=outcome.rows,
            )
        return written

    def _reduced(self, ready: Sequence[RowsReady]) -> dict[str, Outcome]:
        jobs = str(self._folder.jobs)
        if not self._wary:
            return reduce_parts(self._spark, share(ready, self._tasks), jobs)
        outcomes: dict[str, Outcome] = {}
        for each in ready:
            found = alone(partial(reduce_parts, self._spark, share([each], self._tasks), jobs))
            outcomes |= {each.job: Outcome(error=found)} if isinstance(found, str) else found
        return outcomes

    # The second half

    def _compute(self) -> list[Row]:
        written: list[Row] = []
        computing = self._ledger.computing()
        answers = self._answered(computing)
        for each in computing:
            found = answers[each.job]
            if isinstance(found, Answered):
                found = self._kept(each, found)
            if isinstance(found, str):
                self._ledger.fail(each.job, found)
            else:
                written += messages.result_rows(each.job, found.texts)
                self._ledger.complete(each.job, found.summary)
        return written

    def _kept(self, job: Computing, answered: Answered) -> Answered | str:
        """The same when it is in files, or why it is not."""
        try:
            write_result_files(self._folder.results, job.job, job.reduced, answered)
        except (OSError, OutputError, pa.ArrowException) as error:
            return reason(error)
        return answered

    def _answered(self, jobs: Sequence[Computing]) -> dict[str, Answered | str]:
        """The answers, or why there are none."""
        answers: dict[str, Answered | str] = {}
        there = [each for each in jobs if all(map(os.path.exists, each.reduced))]
        answers.update({each.job: LOST for each in jobs if each not in there})
        if not self._wary and there:
            try:
                return answers | answer(self._spark, there, self._tasks)
            except SPARK_ERRORS as error:
                if is_passing(error):
                    raise
        for each in there:
            found = alone(partial(answer, self._spark, [each], self._tasks))
            answers |= {each.job: found} if isinstance(found, str) else found
        return answers
