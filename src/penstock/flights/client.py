"""The Flights client: what somebody who has itineraries, and questions about them, does with a gateway."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

import orjson

from penstock.client.errors import ClosedError
from penstock.client.http.failures import not_understood
from penstock.flights.connection import Address, Answer, Connection
from penstock.flights.jobs import FILES, QUERIES, Job, State
from penstock.flights.numbered_chunks import NumberedChunks
from penstock.flights.patience import Patience, Waiting, reason_of
from penstock.flights.records import FASTEST_OF, MANY_STOPOVERS, FastestOf, RecordError, parse_job
from penstock.flights.refusals import BUSY, NOT_FOUND, SUCCESSES, refusal
from penstock.flights.result_stream import Format, ResultStream
from penstock.flights.upload import FileUpload, Sent, require_alive

if TYPE_CHECKING:
    from types import TracebackType

JOBS: Final = "/v1/flights/jobs"
IDLE_CONNECTIONS_MAX: Final = 4
NEW_S: Final = 5.0
"""For so long a job may be unknown to a gateway that has not heard of its creation yet."""
POLL_S: Final = 0.25
JOBS_MAX: Final = 1_000
JOB_FIELDS: Final = tuple(each.name for each in fields(Job))


class FlightsClient:
    """Sends itineraries and airports to the Flights service and gets the answers to the four queries.

        from penstock.flights import FlightsClient

        with FlightsClient("http://127.0.0.1:8080") as client:
            job = client.create()
            client.upload(job, itineraries="itineraries.csv", airports="airports.csv")
            for row in client.results(job, "q1"):
                print(row["legId"], row["stopovers"])
            print(client.wait(job).summary)

    A gateway or a service that is killed and started again is waited for, and nothing is counted twice or
    left out because of it. `timeout_s` bounds how long something may fail in a row, after which it is a
    DisconnectedServerError; None waits for ever. `waiting` is told, perhaps by several threads, why there is
    a pause. An `upload` that was ended by whatever is continued by another one of the same job.

    May be used by several threads at once.
    """

    def __init__(
        self,
        http: str,
        *,
        token: str | None = None,
        timeout_s: float | None = None,
        waiting: Waiting = lambda _: None,
    ) -> None:
        self._address = Address(http, token)
        self._timeout_s = timeout_s
        self._waiting = waiting
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self._closing = threading.Event()
        self._created: dict[str, float] = {}

    def create(self, job: str | None = None, *, fastest_of: FastestOf = MANY_STOPOVERS) -> str:
        """A new job, with an id of your own if you like. One that exists and receives stays as it is.

        Query 3 is about flights with three or more stopovers, or about "all" of routes that have such a one.
        """
        job = str(uuid.uuid4()) if job is None else parse_job(job)
        asked = {} if fastest_of == MANY_STOPOVERS else {FASTEST_OF: fastest_of}
        # Our own id, always: a request whose answer is lost can then be repeated.
        self._call("POST", JOBS, f"job {job} cannot be created", {"job": job, **asked})
        self._created[job] = time.monotonic()
        return job

    def upload(
        self, job: str, *, itineraries: str, airports: str, sent: Sent = lambda _file, _bytes: None
    ) -> None:
        """Sends both files, from where an earlier upload of this job ended, and returns when the gateway has
        everything. `sent` is told the file and how many of its bytes the gateway has taken.

        UploadError if a file cannot be used, JobFailedError if the service could not use one.
        """
        job, paths = parse_job(job), {"airports": airports, "itineraries": itineraries}
        with ExitStack() as stack:
            chunks = {file: stack.enter_context(NumberedChunks(paths[file], file)) for file in FILES}
            state = self.status(job)
            require_alive(state)
            connection = stack.enter_context(self._connection())
            for file in FILES:
                there = state.files[file]
                if there.messages is None:
                    self._file_upload(job, file, chunks[file], connection, sent).run(state)
                elif there.received == there.messages:
                    chunks[file].require_size(there.bytes)
                sent(file, chunks[file].size)

    def _file_upload(
        self, job: str, file: str, chunks: NumberedChunks, connection: Connection, sent: Sent
    ) -> FileUpload:
        return FileUpload(
            job,
            file,
            chunks,
            connection,
            self._patience(f"job {job}, {file}"),
            status=lambda: self.status(job),
            is_passing=self._is_passing(job),
            sent=sent,
        )

    def status(self, job: str) -> Job:
        """How far it is; JobNotFoundError if there is none."""
        job = parse_job(job)
        answer = self._call("GET", f"{JOBS}/{job}", f"job {job}", passing=self._is_passing(job))
        return _job(answer.fields)

    def jobs(self) -> list[Job]:
        """The newest first, a thousand at most."""
        found = self._call("GET", f"{JOBS}?limit={JOBS_MAX}", "the jobs").fields.get("jobs")
        if not isinstance(found, list):
            raise not_understood("an answer has no 'jobs'")
        return [_job(each) for each in found]

    def wait(self, job: str, progress: Callable[[Job], None] = lambda _: None) -> Job:
        """Returns when it is complete; JobFailedError or JobDeletedError if it never will be. `progress` is
        told its state every now and then."""
        while True:
            state = self.status(job)
            progress(state)
            require_alive(state)
            if state.state is State.COMPLETE:
                return state
            self._sleep(POLL_S)

    def results(self, job: str, query: str, *, follow: bool = True) -> Iterator[dict[str, Any]]:
        """The rows of `q1`, `q2`, `q3` or `q4`, by column: those that are there, and then, unless `follow` is
        false, all others as they come."""
        for block in self.result_lines(job, query, "ndjson", follow=follow):
            for line in block.splitlines():
                yield orjson.loads(line)

    def result_lines(
        self, job: str, query: str, form: Format = "csv", *, follow: bool = True
    ) -> Iterator[bytes]:
        """The same as text, in blocks of whole lines; CSV begins with a line of the columns' names."""
        job = parse_job(job)
        if query not in QUERIES:
            raise ValueError(f"{query!r} is not one of the queries: {', '.join(QUERIES)}")
        with self._connection() as connection:
            stream = ResultStream(
                job,
                query,
                form,
                follow,
                connection,
                self._patience(f"job {job}, {query}"),
                status=lambda: self.status(job),
                is_passing=self._is_passing(job),
                sleep=self._sleep,
            )
            yield from stream.blocks()

    def service(self) -> str:
        """How the service is, as the gateway sees it: `running`, `starting`, `late` or `down`."""
        return str(self._call("GET", f"{JOBS}?limit=1", "the service").fields.get("service", "unknown"))

    def delete(self, job: str) -> None:
        """It and its data; JobNotFoundError if there is none."""
        job = parse_job(job)
        self._call("DELETE", f"{JOBS}/{job}", f"job {job}", passing=self._is_passing(job))

    def close(self) -> None:
        """Calls of other threads that are under way end with an error."""
        self._closing.set()
        with self._lock:
            idle, self._idle = self._idle, []
            for connection in self._busy:
                connection.interrupt()
        for connection in idle:
            connection.close()

    def __enter__(self) -> FlightsClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(
        self,
        method: str,
        target: str,
        what: str,
        content: dict[str, Any] | None = None,
        *,
        passing: Callable[[Answer], bool] = lambda _: False,
    ) -> Answer:
        """Until there is an answer. Every request may be repeated."""
        patience = self._patience(what)
        body = None if content is None else json.dumps(content).encode()
        while True:
            try:
                with self._connection() as connection:
                    answer = connection.ask(method, target, body)
            except OSError as error:
                patience.pause(reason_of(error))
                continue
            if answer.status in SUCCESSES:
                return answer
            if answer.status not in BUSY and not passing(answer):
                raise refusal(answer, what)
            patience.pause(answer.message, answer.retry_after_s)

    def _is_passing(self, job: str) -> Callable[[Answer], bool]:
        def is_passing(answer: Answer) -> bool:
            created = self._created.get(job)
            return answer.status == NOT_FOUND and created is not None and time.monotonic() < created + NEW_S

        return is_passing

    def _patience(self, what: str) -> Patience:
        return Patience(what, self._timeout_s, self._sleep, self._waiting)

    def _sleep(self, seconds: float) -> None:
        if self._closing.wait(seconds):
            raise ClosedError("the client is closed")

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        with self._lock:
            if self._closing.is_set():
                raise ClosedError("the client is closed")
            connection = self._idle.pop() if self._idle else Connection(self._address)
            self._busy.add(connection)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        finally:
            with self._lock:
                self._busy.discard(connection)
                is_kept = len(self._idle) < IDLE_CONNECTIONS_MAX and not self._closing.is_set()
                if is_kept:
                    self._idle.append(connection)
            if not is_kept:
                connection.close()


def _job(found: Any) -> Job:
    """The gateway may say more than the service does."""
    try:
        known = {name: found[name] for name in JOB_FIELDS if name in found}
        return Job.from_json(orjson.dumps(known))
    except (RecordError, TypeError) as error:
        raise not_understood(str(error)) from error
