"""Writing rows as messages: what Spark calls, in its tasks and on its driver.

*Exactly once*, the default. A task does not know whether its batch was written before, nor whether it is the
task's only attempt; the driver learns both, when all tasks are done and Spark calls `commit`. So tasks stage
their rows in files, and `commit` writes them in one transaction (see `transactions`). A stream's transaction
records the number of the batch too, and a batch that is there already is not written again.

*At least once* (`exactlyOnce=false`). Tasks send their rows themselves, which is faster and needs no files.
Within one attempt of a task no message is lost, doubled or out of order in its partition. But Spark runs a
task again after a failure, and a micro batch again after a crash, and what the first attempt wrote is there
already. A task ends when every message is acknowledged; the first that the broker refuses fails it.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from penstock.spark.errors import OptionError
from penstock.spark.rows import written
from penstock.spark.sender import Sender
from penstock.spark.sink_state import Batch
from penstock.spark.staging import (
    BATCH_PREFIX,
    Staged,
    remove_folder,
    remove_left_over,
    remove_old_batches,
    remove_staged,
    stage,
    this_task,
)
from penstock.spark.transactions import TransactionalSink

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from penstock.spark.options import WriteOptions

Messages = list[WriterCommitMessage | None]
"""Of the tasks, in the order of their partitions; None of those that failed."""
ONLY_BATCH: Final = 0


@dataclass
class Written(WriterCommitMessage):
    messages: int


class AtLeastOnceWriter(DataSourceArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return _send(iterator, self._options)


class AtLeastOnceStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return _send(iterator, self._options)


class ExactlyOnceWriter(DataSourceArrowWriter):
    """A batch: all or nothing. It is made on the driver, and tasks and `commit` get copies of it."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._id = uuid.uuid4().hex
        self._staging = options.staging or Path(tempfile.gettempdir()) / f"penstock-staging-{os.getuid()}"
        self._folder = self._staging / f"{BATCH_PREFIX}{self._id}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return stage(iterator, self._options.topic, self._folder, this_task())

    def commit(self, messages: Messages) -> None:
        staged = _staged(messages)
        if any(each.rows for each in staged):
            sink = TransactionalSink(self._options.connection, self._options.topic, self._id)
            sink.publish(Batch(self._id, self._id, ONLY_BATCH), staged)
            sink.forget()
        remove_folder(self._folder)
        remove_old_batches(self._staging)

    def abort(self, messages: Messages) -> None:  # noqa: ARG002 - all that it has staged is in one folder
        remove_folder(self._folder)


class ExactlyOnceStreamWriter(DataSourceStreamArrowWriter):
    """A stream. Tasks and every `commit` get a new one: what lasts is in files and in the cluster."""

    def __init__(self, options: WriteOptions) -> None:
        assert options.staging is not None
        self._options = options
        self._staging = options.staging

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        task = this_task()
        if not (task.query and task.run and task.batch):
            raise OptionError(
                "exactlyOnce", "this version of Spark does not tell its tasks of which batch they are"
            )
        return stage(iterator, self._options.topic, self._staging / task.query / task.run / task.batch, task)

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        staged = _staged(messages)
        # A batch without rows is the same whether it is written or not.
        if any(each.rows for each in staged):
            query, run = staged[0].query, staged[0].run
            sink = TransactionalSink(
                self._options.connection, self._options.topic, self._options.sink_id or query
            )
            sink.publish(Batch(query, run, batchId), staged)
            remove_left_over(self._staging / query, run, batchId)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803, ARG002 - the files know their batch
        remove_staged(_staged(messages))


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    return [message for message in messages if isinstance(message, Staged)]


def _send(batches: Iterator[pa.RecordBatch], options: WriteOptions) -> Written:
    sender = Sender(options.connection)
    for batch in batches:
        sender.send(written(batch, options.topic), options.topic)
    sender.finish()
    return Written(sender.sent)
