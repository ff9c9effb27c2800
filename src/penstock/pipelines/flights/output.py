"""The results folder: written aside, then put in place as a whole."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import IO, Final

from penstock.pipelines.flights.schemas import RESULT_COLUMNS

SUMMARY: Final = "summary.json"
FILES: Final = frozenset({*(f"{query}.csv" for query in RESULT_COLUMNS), SUMMARY})


class OutputError(Exception):
    """A folder that results cannot be written to; the message is one line."""


@dataclass(frozen=True, slots=True)
class Summary:
    rows_read: int
    rows_rejected: int
    rejected: dict[str, int]
    left_out: dict[str, dict[str, int]]
    average_fare: float | None
    """None if there was no usable row."""
    queries: dict[str, int]
    seconds: float


class ResultsFolder:
    """A hidden folder beside the asked one, which takes its place when everything is there."""

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)
        parent, name = os.path.split(self.path)
        self.aside = os.path.join(parent, f".{name}.{os.getpid()}")
        self.replaced = f"{self.aside}.replaced"

    def prepare(self) -> None:
        """Fails now, and not after the work, if the folder cannot be written."""
        check_replaceable(self.path)
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            os.mkdir(self.aside)
        except OSError as error:
            raise OutputError(f"{error.filename}: {error.strerror}") from error

    def write_results(self, chunks: Iterable[tuple[str, str]]) -> None:
        """Lines of text as they come, each with the query it belongs to."""
        with contextlib.ExitStack() as stack:
            files = {query: stack.enter_context(self._create(f"{query}.csv")) for query in RESULT_COLUMNS}
            for query, columns in RESULT_COLUMNS.items():
                files[query].write(",".join(columns) + "\n")
            for query, text in chunks:
                files[query].write(text)

    def write_summary(self, summary: Summary) -> None:
        with self._create(SUMMARY) as file:
            json.dump(asdict(summary), file, indent=2)
            file.write("\n")

    def _create(self, name: str) -> IO[str]:
        return open(os.path.join(self.aside, name), "w", encoding="utf-8", newline="")

    def put_in_place(self) -> None:
        check_replaceable(self.path)  # others may have written there meanwhile
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.path, self.replaced)
        os.rename(self.aside, self.path)
        self.discard()

    def discard(self) -> None:
        for leftover in (self.aside, self.replaced):
            if os.path.isdir(leftover):
                shutil.rmtree(leftover)


@contextlib.contextmanager
def results_folder(path: str) -> Iterator[ResultsFolder]:
    """Complete at the end of the block, or as it was before if the block fails."""
    folder = ResultsFolder(path)
    folder.prepare()
    try:
        yield folder
        folder.put_in_place()
    except BaseException:
        folder.discard()
        raise


def check_replaceable(path: str) -> None:
    """Nothing, an empty folder or earlier results: whatever else is there is not ours to remove."""
    try:
        others = sorted(set(os.listdir(path)) - FILES)
    except FileNotFoundError:
        return
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from error
    if others:
        raise OutputError(f"{path}: holds {others[0]!r}, which is no earlier result; choose another folder")
