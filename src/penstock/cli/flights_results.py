"""What people see of a job: tables of its first rows as they arrive, bars or lines of how far it is."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from penstock.cli.output import counted
from penstock.pipelines.flights.schemas import RESULT_COLUMNS

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from penstock.flights.jobs import Job
    from penstock.pipelines.flights.output import Summary

MEGABYTE = 1_000_000
PLAIN_SHARES = 10
"""Plain lines about an upload."""
PLAIN_STATE_S = 5.0
"""Between plain lines about the same state."""
REMIND_S = 30.0
"""The same reason for waiting is told again after so long."""


class Screen:
    """How far it is goes to stderr, results to stdout; both may be told by several threads at once."""

    def __init__(self, bar: "Progress | None", stdout: TextIO, total_bytes: int, results: bool) -> None:
        self._bar = bar
        self._stdout = stdout
        self._total = total_bytes
        self._results = results
        self._lock = threading.RLock()
        self._sent: dict[str, int] = {}
        self._shares = 0
        self._waiting_for, self._waiting_at = "", 0.0
        self._state, self._state_text, self._state_at = "", "", 0.0
        if bar is not None:
            self._upload = bar.add_task("upload", total=total_bytes)
            self._service = bar.add_task("service", total=total_bytes)

    def sent(self, file: str, sent_bytes: int) -> None:
        with self._lock:
            self._sent[file] = sent_bytes
            done = sum(self._sent.values())
            self._waiting_for = ""
            if self._bar is not None:
                self._bar.update(self._upload, description="upload", completed=done)
                return
            shares = PLAIN_SHARES * done // max(1, self._total)
            if shares > self._shares:
                self._shares = shares
                self.say(f"uploaded {done / MEGABYTE:,.1f} of {self._total / MEGABYTE:,.1f} MB")

    def state(self, job: "Job") -> None:
        with self._lock:
            if self._bar is not None:
                done = sum(file.bytes for file in job.files.values())
                self._bar.update(self._service, description=describe(job), completed=done)
                return
            now, text = time.monotonic(), describe(job)
            is_new = text != self._state_text and now >= self._state_at + PLAIN_STATE_S
            if is_new or job.state != self._state:
                self._state, self._state_text, self._state_at = job.state, text, now
                self.say(text)

    def waiting(self, reason: str) -> None:
        with self._lock:
            now = time.monotonic()
            if reason == self._waiting_for and now < self._waiting_at + REMIND_S:
                return
            self._waiting_for, self._waiting_at = reason, now
            self.say(f"waiting: {reason}")

    def say(self, line: str) -> None:
        if self._bar is None:
            print(line, file=sys.stderr, flush=True)
        else:
            self._bar.console.print(line, markup=False, highlight=False)

    def rows(self, query: str, title: str, rows: Sequence[Sequence[str]]) -> None:
        """A table of a few rows."""
        if not self._results:
            return
        from rich.table import Table
        from rich.text import Text

        table = Table(title=f"{query}: {title}", title_justify="left")
        for column in RESULT_COLUMNS[query]:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*map(Text, row))  # whatever is in the file, it is no markup
        with self._lock:
            self._console().print(table, highlight=False)

    def line(self, text: str) -> None:
        if self._results:
            with self._lock:
                self._console().print(text, markup=False, highlight=False, soft_wrap=True)

    def _console(self) -> "Console":
        """A bar and tables on the same terminal must know of each other."""
        from rich.console import Console

        if self._bar is not None and self._stdout.isatty():
            return self._bar.console
        return Console(file=self._stdout)


def describe(job: "Job") -> str:
    answers = ", ".join(
        f"{name} {counted(query.rows, 'row')}"
        for name, query in job.queries.items()
        if query.state != "later"
    )
    return f"{job.state}, {counted(job.rows_read, 'row')} read" + (f"; {answers}" if answers else "")


def summary_lines(summary: "Summary") -> Iterator[str]:
    yield f"{counted(summary.rows_read, 'row')} read, {summary.rows_rejected:,} rejected"
    for reason, rows in summary.rejected.items():
        yield f"  {reason}: {rows:,}"
    for query, reasons in summary.left_out.items():
        for reason, rows in reasons.items():
            yield f"  left out of {query}, {reason}: {rows:,}"
    if summary.average_fare is not None:
        yield f"average fare {summary.average_fare:.2f}"


@contextlib.contextmanager
def screen(total_bytes: int, results: bool) -> Iterator[Screen]:
    from penstock.cli.flights import progress_bar

    stdout = sys.stdout  # a bar puts its own in this place, which writes to stderr
    with progress_bar() as bar:
        yield Screen(bar, stdout, total_bytes, results)
