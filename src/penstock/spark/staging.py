"""Rows that wait for the commit of their batch, in files.

A task writes its rows to an Arrow file, under a name nobody reads, and renames it when it is complete. What
it hands to the driver is where the file is, and whose it is: Spark tells a task, not the driver, of which
query and run the batch is. The layout is

    <staging>/<query>/<run>/<batch>/<partition>-<attempt>.arrow         of a stream
    <staging>/batch-<id of the write>/<partition>-<attempt>.arrow       of a batch

A file is needed between its task and the commit of its batch, by one run, and by nothing after a crash: Spark
runs the batch again from its source. So when a batch is committed, the files of that batch and of those
before are left over, whoever wrote them, and so are the files of all other runs: the run that has just
written is the newest, and the others could not commit theirs any more. Of a batch that crashed nobody takes
care, but for other batches, after some days.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from penstock.spark.errors import SourceError
from penstock.spark.rows import written

if TYPE_CHECKING:
    from typing import BinaryIO

LOG = logging.getLogger(__name__)

BATCH_PREFIX: Final = "batch-"
BATCH_S_MAX: Final = 7 * 24 * 3600


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What one task has left for the commit."""

    query: str
    run: str
    path: str | None
    """None where the task had no rows."""
    rows: int
    bytes: int
    host: str


@dataclass(frozen=True)
class Task:
    """What Spark tells a task about itself; a batch write has no query."""

    query: str
    run: str
    batch: str
    file: str


def this_task() -> Task:
    context = TaskContext.get()
    assert context is not None, "rows are written in tasks only"
    return Task(
        # Spark's names for what it sets in every task of a stream. The job group of a stream is its run.
        query=context.getLocalProperty("sql.streaming.queryId") or "",
        run=context.getLocalProperty("spark.jobGroup.id") or "",
        batch=context.getLocalProperty("streaming.sql.batchId") or "",
        file=f"{context.partitionId()}-{context.taskAttemptId()}.arrow",
    )


def stage(batches: Iterator[pa.RecordBatch], topic: str | None, folder: Path, task: Task) -> Staged:
    """Writes the rows of a task. A task that fails leaves nothing."""
    full = (written(batch, topic) for batch in batches if batch.num_rows)
    first = next(full, None)
    host = socket.gethostname()
    if first is None:
        return Staged(task.query, task.run, None, 0, 0, host)
    path = folder / task.file
    rows = first.num_rows
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _put_in_place(path) as file, pa.ipc.new_file(file, first.schema) as writer:
            writer.write_batch(first)
            for batch in full:
                writer.write_batch(batch)
                rows += batch.num_rows
        return Staged(task.query, task.run, str(path), rows, path.stat().st_size, host)
    except OSError as error:
        raise SourceError(f"rows cannot be staged in {folder} on {host}: {error}") from error


@contextmanager
def _put_in_place(path: Path) -> Iterator[BinaryIO]:
    """A file that is there completely or not at all."""
    aside = path.with_suffix(".aside")
    try:
        with aside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def read_staged(staged: Staged) -> Iterator[pa.RecordBatch]:
    """The rows again, in their order, one record batch at a time."""
    if staged.path is None:
        return
    rows = 0
    try:
        with pa.memory_map(staged.path) as file, pa.ipc.open_file(file) as reader:
            for index in range(reader.num_record_batches):
                batch = reader.get_batch(index)
                rows += batch.num_rows
                yield batch
    except FileNotFoundError as error:
        raise SourceError(
            f"{staged.path} was staged on {staged.host} and is not on {socket.gethostname()}: set the option "
            "staging to a folder that the driver and all executors share, or exactlyOnce to false"
        ) from error
    except (OSError, pa.ArrowInvalid) as error:
        raise SourceError(f"{staged.path}, which was staged on {staged.host}, is damaged: {error}") from error
    if rows != staged.rows:
        raise SourceError(f"{staged.path} has {rows} rows and not {staged.rows}, as they were staged")


def remove_staged(staged: Iterable[Staged]) -> None:
    """Removes just these files."""
    for each in staged:
        if each.path is not None:
            try:
                Path(each.path).unlink(missing_ok=True)
            except OSError as error:
                LOG.warning("cannot remove a staged file: %s", error)


def remove_left_over(folder: Path, run: str, batch: int) -> None:
    """In the folder of a query: all other runs, and the batches of this one up to `batch`."""
    for path in _entries(folder):
        if path.name != run:
            remove_folder(path)
    for path in _entries(folder / run):
        if path.name.isdigit() and int(path.name) <= batch:
            remove_folder(path)


def remove_old_batches(staging: Path) -> None:
    """Folders of batches in which nothing has happened for so long that nobody can be at work there."""
    for path in _entries(staging):
        try:
            old = path.name.startswith(BATCH_PREFIX) and time.time() - path.stat().st_mtime > BATCH_S_MAX
        except FileNotFoundError:
            continue  # its batch has just ended
        if old:
            remove_folder(path)


def remove_folder(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        pass  # it was never made, or somebody else has removed it
    except OSError as error:  # as a task does that still writes there; it goes with the next batch
        LOG.warning("cannot remove staged files: %s", error)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
