"""`penstock flights submit`: two files go up, and four results come down, the first two while it goes on."""

import contextlib
import io
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from typing import IO, TYPE_CHECKING

from penstock.cli.flights_results import Screen, summary_lines
from penstock.cli.output import CommandFailed
from penstock.client.errors import ServerError
from penstock.flights.errors import JobDeletedError, JobNotFoundError
from penstock.flights.jobs import QUERIES, Job, State
from penstock.flights.records import MANY_STOPOVERS
from penstock.flights.upload import require_alive
from penstock.pipelines.flights.output import ResultsFolder, Summary, results_folder

if TYPE_CHECKING:
    from penstock.flights import FlightsClient
    from penstock.flights.records import FastestOf

EARLY = ("q1", "q2")
"""Answered while the files arrive."""
STATE_S = 1.0
TEXT_CHARACTERS = 1024 * 1024


class Answers:
    """The rows of one query: the first few to be shown, all of them to be written."""

    def __init__(self, query: str, screen: Screen, spool: IO[bytes] | None) -> None:
        from penstock.cli.flights import SHOWN_ROWS, TITLES

        self._query, self._title = query, TITLES[query]
        self._screen = screen
        self._spool = spool
        self._wanted = SHOWN_ROWS
        self._shown: list[list[str]] = []
        self._is_shown = False
        self._lines = 0

    def take(self, block: bytes) -> None:
        if self._lines == 0:
            self._lines, block = 1, block.partition(b"\n")[2]  # the heading is known
        self._lines += block.count(b"\n")
        if self._spool is not None:
            self._spool.write(block)
        if self._is_shown:
            return
        for line in block.split(b"\n", self._wanted)[: self._wanted - len(self._shown)]:
            if line:
                self._shown.append(line.decode(errors="replace").split(","))
        if len(self._shown) == self._wanted:
            self._is_shown = True
            self._screen.rows(self._query, f"{self._title}, the first rows", self._shown)

    def end(self) -> None:
        from penstock.cli.output import counted

        rows = counted(self._lines - 1, "row")
        if self._is_shown:
            self._screen.line(f"{self._query}: {rows}")
        else:
            self._screen.rows(self._query, f"{self._title}, {rows}", self._shown)

    def texts(self) -> Iterator[str]:
        assert self._spool is not None, "nobody wanted to have it written"
        self._spool.seek(0)
        reader = io.TextIOWrapper(self._spool, encoding="utf-8", newline="")
        while text := reader.read(TEXT_CHARACTERS):
            yield text
        reader.detach()


class Follower(threading.Thread):
    """Takes what arrives of one query, beside the upload."""

    def __init__(self, client: "FlightsClient", job: str, query: str, answers: Answers) -> None:
        super().__init__(name=f"flights-{query}", daemon=True)
        self._client, self._job, self._query, self._answers = client, job, query, answers
        self._failure: BaseException | None = None

    def run(self) -> None:
        try:
            follow(self._client, self._job, self._query, self._answers)
        except BaseException as error:  # for the thread that waits
            self._failure = error

    def check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def result(self) -> None:
        self.join()
        self.check()


def follow(client: "FlightsClient", job: str, query: str, answers: Answers) -> None:
    for block in client.result_lines(job, query):
        answers.take(block)


class Submission:
    def __init__(self, client: "FlightsClient", job: str, paths: Mapping[str, str], screen: Screen) -> None:
        self._client = client
        self._job = job
        self._paths = paths
        self._screen = screen
        self._state_at = 0.0
        self._followers: list[Follower] = []

    def find_or_create(self, fastest_of: "FastestOf | None") -> Job:
        """None takes a job as it is."""
        try:
            found = self._client.status(self._job)
        except JobDeletedError:
            raise
        except JobNotFoundError:
            self._client.create(self._job, fastest_of=fastest_of or MANY_STOPOVERS)
            return self._client.status(self._job)
        if fastest_of not in (None, found.fastest_of):
            raise CommandFailed(
                f"job {self._job} is about the fastest of {found.fastest_of}: take another id"
            )
        return found

    def upload(self, state: Job) -> None:
        require_alive(state)
        if state.state is State.RECEIVING:
            self._client.upload(
                self._job,
                itineraries=self._paths["itineraries"],
                airports=self._paths["airports"],
                sent=self._sent,
            )

    def _sent(self, file: str, sent_bytes: int) -> None:
        self._screen.sent(file, sent_bytes)
        for follower in self._followers:
            follower.check()
        if time.monotonic() >= self._state_at + STATE_S:
            self._state_at = time.monotonic()
            self._screen.state(self._client.status(self._job))

    def run(self, state: Job, out: str | None) -> Summary:
        """Uploads what is missing, and returns when all answers are shown, and written to `out`."""
        require_alive(state)
        with contextlib.ExitStack() as stack:
            folder = None if out is None else stack.enter_context(results_folder(out))
            answers = {query: Answers(query, self._screen, spool_in(folder, stack)) for query in QUERIES}
            self._followers = [Follower(self._client, self._job, query, answers[query]) for query in EARLY]
            for follower in self._followers:
                follower.start()
            self.upload(state)
            summary = summary_of(self._client.wait(self._job, self._screen.state))
            for query, follower in zip(EARLY, self._followers, strict=True):
                follower.result()
                answers[query].end()
            for query in QUERIES[len(EARLY) :]:
                follow(self._client, self._job, query, answers[query])
                answers[query].end()
            if folder is not None:
                folder.write_results((query, text) for query in QUERIES for text in answers[query].texts())
                folder.write_summary(summary)
        for line in summary_lines(summary):
            self._screen.line(line)
        return summary


def spool_in(folder: ResultsFolder | None, stack: contextlib.ExitStack) -> IO[bytes] | None:
    """A file without a name on the disk that the results will be on."""
    if folder is None:
        return None
    return stack.enter_context(tempfile.TemporaryFile(dir=folder.aside))


def summary_of(state: Job) -> Summary:
    try:
        return Summary(**(state.summary or {}))
    except TypeError as error:
        raise ServerError(f"job {state.job}: its summary is not understood: {error}") from error
