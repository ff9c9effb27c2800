"""The folder that the service works in, on a file system that the driver and all executors share.

    flights.json    that it is one; locked as long as a driver uses it
    checkpoint/     Spark's own
    raw/            chunks as they came, put aside by the tasks that read them
    jobs/<job>/     what was made of them
    results/<job>/  the files of results of jobs that are complete

What counts is what the ledger refers to. Everything else is left over from steps that were not finished, and
is removed. No file is ever written again under a name that was used before: one that a task which nobody
waits for any more puts in its place late is in nobody's way.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from penstock.pipelines.claim import claimed

ABOUT: Final = "flights.json"
KIND: Final = b'{"kind": "penstock flights"}\n'
ASIDE: Final = ".aside"


class Folder:
    def __init__(self, path: str) -> None:
        self.path = Path(path).absolute()
        self.checkpoint = self.path / "checkpoint"
        self.raw = self.path / "raw"
        self.jobs = self.path / "jobs"
        self.results = self.path / "results"

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Only one process at a time has a folder."""
        with claimed(self.path, ABOUT, KIND, kind="folder of the Flights service", owner="Flights service"):
            for folder in (self.raw, self.jobs, self.results):
                folder.mkdir(exist_ok=True)
            yield

    def staged(self) -> set[str]:
        """Every file that was staged, also what was never finished."""
        return {
            os.path.join(where, name)
            for top in (self.raw, self.jobs)
            for where, _, names in os.walk(top)
            for name in names
        }

    def sweep(self, needed: set[str], with_results: set[str]) -> None:
        """Removes all but these files, and results of all but these jobs."""
        remove(self.staged() - needed)
        for folder in (*self.jobs.iterdir(), *self.results.iterdir()):
            if folder.parent == self.jobs:
                with suppress(OSError):  # it is not empty
                    folder.rmdir()
            elif folder.name not in with_results:
                self.remove_results(folder.name)

    def remove_results(self, job: str) -> None:
        shutil.rmtree(self.results / job, ignore_errors=True)


def remove(paths: Iterable[str]) -> None:
    for path in paths:
        with suppress(FileNotFoundError):
            os.unlink(path)
        with suppress(OSError):  # the folder has other files
            if os.path.basename(os.path.dirname(path)) != "raw":
                os.rmdir(os.path.dirname(path))


def new_name() -> str:
    """Of a file that nobody has written before."""
    return uuid.uuid4().hex[:12]


@contextmanager
def put_in_place(path: str, *, lasting: bool) -> Iterator[IO[bytes]]:
    """A file that is there completely or not at all; `lasting`, also after the machine has lost its power."""
    folder = os.path.dirname(path)
    is_new = not os.path.isdir(folder)
    os.makedirs(folder, exist_ok=True)
    aside = path + ASIDE
    try:
        with open(aside, "wb") as file:
            yield file
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        os.rename(aside, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(aside)
        raise
    if lasting:
        _sync(folder)
        if is_new:
            _sync(os.path.dirname(folder))


def sync(paths: Iterable[str]) -> None:
    """Makes files last that are there."""
    folders = set()
    for path in paths:
        _sync(path)
        folders.add(os.path.dirname(path))
    for folder in folders:
        _sync(folder)


def _sync(path: str) -> None:
    """A file, or which names a folder has."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
