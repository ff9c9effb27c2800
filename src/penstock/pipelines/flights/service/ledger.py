"""What the service knows of its jobs: which messages are there, where their bytes are, what comes next. Pure.

Every record of the log goes through `apply`, in the order of a micro-batch. A message counts once, by (job,
file, number), however often and however late it comes again: which numbers were there is kept as ranges, for
as long as the job is. What is wrong with a record ends its job with a reason, and no other.

A job goes through its states so:

    receiving   until all messages of both files are there; chunks of itineraries are reduced as soon as the
                airports are known, and wait until then
    computing   all of them are reduced: what is left are the queries that need everything
    complete, failed, deleted

The ledger is kept in the records of `flights.jobs`, which are written in the same transaction as the results
of a micro-batch. So it is never ahead of the results, nor behind. After any failure it is thrown away and
loaded again. Time is that of the records, which brokers stamp.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from zlib import crc32

from penstock.flights.jobs import QUERIES, Job, QueryProgress, State
from penstock.flights.records import (
    MANY_STOPOVERS,
    End,
    FastestOf,
    RecordError,
    Request,
    ResultEnd,
    parse_fastest_of,
    parse_job,
    parse_request,
    parse_upload,
)
from penstock.flights.topics import FILE_TOPICS, PARTITIONS, REQUESTS
from penstock.pipelines.flights.service.entry import Entry, Piece, ReceivedFile

FORGET_MS: Final = 7 * 24 * 3_600_000
"""After so long nothing is known any more of a job that has expired."""
DELETED: Final = "it was deleted"
LOST: Final = "what was staged of it is lost"

_FILE_OF_TOPIC: Final = {topic: file for file, topic in FILE_TOPICS.items()}


@dataclass(frozen=True, slots=True)
class Limits:
    job_bytes: int = 64 * 2**30
    total_bytes: int = 256 * 2**30
    """Of all jobs that are being received."""
    jobs: int = 1_000
    """That are not done."""
    keep_ms: int = 3_600_000
    """So long the files of a job that is done stay."""
    abandon_ms: int = 86_400_000
    """After so long without a message nobody will send the rest."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A record of the log, as the source gives it."""

    topic: str
    timestamp_ms: int
    key: bytes | None
    headers: list[tuple[str, bytes | None]]
    piece: Piece | None = None
    """Of a chunk: where its value was put aside."""
    head: bytes | None = None
    """The first line of the value, if it is message 0."""
    fault: str | None = None
    """What `chunks.check_chunk` says against it."""
    value: bytes | None = None
    """Of a request."""


@dataclass(frozen=True, slots=True)
class AirportsReady:
    """All airports of a job are there, to be made into one file of positions."""

    job: str
    header: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class RowsReady:
    """Itineraries of a job that can be reduced, without the header line."""

    job: str
    header: str
    airports: str
    pieces: tuple[Piece, ...]
    fastest_of_all: bool = False


@dataclass(frozen=True, slots=True)
class Computing:
    job: str
    reduced: tuple[str, ...]
    created_ms: int
    rows: Mapping[str, int]
    """Of queries 1 and 2, that are written."""
    fastest_of_all: bool = False


def results_partition(job: str) -> int:
    """Where the results of a job are written, all of them in one partition, in their order."""
    return crc32(job.encode()) % PARTITIONS


class Ledger:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._entries: dict[str, Entry] = {}
        self._changed: dict[str, None] = {}
        self._endings: list[tuple[str, ResultEnd]] = []
        self._open_bytes = 0
        """Of all jobs that are not done."""
        self.refused = 0
        """Records that are of no job."""

    @staticmethod
    def load(values: Iterable[bytes], limits: Limits) -> Ledger:
        """From the newest value of each key of `flights.jobs`."""
        ledger = Ledger(limits)
        for value in values:
            try:
                entry = Entry.from_json(value)
            except (RecordError, KeyError, TypeError, ValueError):
                ledger.refused += 1  # somebody else has written there
                continue
            ledger._entries[entry.public.job] = entry
            if not entry.public.state.is_final:
                ledger._open_bytes += entry.size
        return ledger

    # What comes

    def apply(self, arrivals: Iterable[Arrival], result_ends: Mapping[int, int]) -> None:
        """`result_ends`: by partition of `flights.results`, an offset before which new jobs have nothing."""
        for arrival in arrivals:
            try:
                job = parse_job(arrival.key)
            except RecordError:
                self.refused += 1
                continue
            if arrival.topic == REQUESTS:
                self._request(job, arrival, result_ends)
            else:
                self._upload(job, arrival, result_ends)

    def _request(self, job: str, arrival: Arrival, result_ends: Mapping[int, int]) -> None:
        try:
            request, fastest_of = parse_request(arrival.value), parse_fastest_of(arrival.value)
        except RecordError:
            self.refused += 1
            return
        if request is Request.CREATE:
            self._create(job, fastest_of, arrival.timestamp_ms, result_ends)
            return
        entry = self._entries.get(job)
        if entry is None:
            return
        if request is Request.DELETE:
            self._end(entry, State.DELETED, DELETED, arrival.timestamp_ms)
        else:
            self._expire(entry, arrival.timestamp_ms)

    def _create(self, job: str, fastest_of: FastestOf, at_ms: int, result_ends: Mapping[int, int]) -> None:
        entry = self._entry(job, at_ms, result_ends)
        if fastest_of in (MANY_STOPOVERS, entry.public.fastest_of) or entry.public.state.is_final:
            return
        if entry.reduced:
            # Rows that overtook the request were reduced without it.
            self._end(entry, State.FAILED, "what query 3 is about came after its rows: try again", at_ms)
            return
        entry.public = replace(entry.public, fastest_of=fastest_of)
        self._changed[job] = None

    def _upload(self, job: str, arrival: Arrival, result_ends: Mapping[int, int]) -> None:
        file_name = _FILE_OF_TOPIC[arrival.topic]
        entry = self._entry(job, arrival.timestamp_ms, result_ends)
        if entry.public.state.is_final:
            return
        file = entry.files[file_name]
        try:
            upload = parse_upload(arrival.headers)
            if isinstance(upload, End):
                self._file_end(file, upload.messages)
            else:
                self._chunk(entry, file, upload.message, arrival)
        except RecordError as error:
            self._end(entry, State.FAILED, f"{file_name}: {error}", arrival.timestamp_ms)
            return
        self._touch(entry, arrival.timestamp_ms)
        self._settle(entry)

    def _file_end(self, file: ReceivedFile, messages: int) -> None:
        if file.messages is not None and file.messages != messages:
            raise RecordError(f"it ended after {file.messages} messages, and then after {messages}")
        if messages == 0:
            raise RecordError("the file is empty")
        if file.seen.end > messages:
            raise RecordError(f"it ends after {messages} messages, and message {file.seen.end - 1} was there")
        file.messages = messages

    def _chunk(self, entry: Entry, file: ReceivedFile, message: int, arrival: Arrival) -> None:
        if message in file.seen:
            file.duplicates += 1
            return
        if arrival.fault is not None:
            raise RecordError(f"message {message}: {arrival.fault}")
        if file.messages is not None and message >= file.messages:
            raise RecordError(f"message {message} after its end at {file.messages}")
        piece = arrival.piece
        assert piece is not None, "the source puts every chunk aside"
        file.seen.add(message)
        file.bytes += piece.length
        self._open_bytes += piece.length
        self._check_quota(entry)
        if message == 0:
            assert arrival.head is not None
            file.header = arrival.head.decode()
            skipped = len(arrival.head)
            piece = Piece(piece.path, piece.position + skipped, piece.length - skipped)
        file.keep(message, piece)

    def _check_quota(self, entry: Entry) -> None:
        if entry.size > self._limits.job_bytes:
            raise RecordError(f"the job has more than the {self._limits.job_bytes} bytes that it may have")
        if self._open_bytes > self._limits.total_bytes:
            raise RecordError(
                f"all jobs together have more than the {self._limits.total_bytes} bytes that they may have"
            )

    def _entry(self, job: str, at_ms: int, result_ends: Mapping[int, int]) -> Entry:
        entry = self._entries.get(job)
        if entry is None:
            partition = results_partition(job)
            entry = Entry(
                Job(
                    job,
                    created_ms=at_ms,
                    updated_ms=at_ms,
                    results_partition=partition,
                    results_offset=result_ends.get(partition, 0),
                )
            )
            others = sum(not each.public.state.is_final for each in self._entries.values())
            self._entries[job] = entry
            self._changed[job] = None
            if others >= self._limits.jobs:
                self._end(entry, State.FAILED, f"there are {others} jobs already: try later", at_ms)
        return entry

    # What is to be done

    def airports_ready(self) -> list[AirportsReady]:
        found = []
        for entry in self._receiving():
            airports = entry.files["airports"]
            if entry.airports is None and airports.is_complete:
                assert airports.header is not None
                found.append(AirportsReady(entry.public.job, airports.header, airports.pieces_in_order))
        return found

    def airports_known(self, job: str, path: str) -> None:
        entry = self._entries[job]
        entry.airports = path
        entry.files["airports"].pieces = []
        self._changed[job] = None
        self._settle(entry)

    def rows_ready(self) -> list[RowsReady]:
        found = []
        for entry in self._receiving():
            file = entry.files["itineraries"]
            if entry.airports is not None and file.header is not None and file.pieces:
                found.append(
                    RowsReady(
                        entry.public.job,
                        file.header,
                        entry.airports,
                        file.pieces_in_order,
                        entry.fastest_of_all,
                    )
                )
        return found

    def reduced(
        self, job: str, files: Iterable[str], *, rows_read: int, rows_rejected: int, rows: Mapping[str, int]
    ) -> None:
        """All that `rows_ready` had of the job; `rows` are those of q1 and q2 that are now written."""
        entry = self._entries[job]
        entry.files["itineraries"].pieces = []
        entry.reduced.extend(files)
        queries = dict(entry.public.queries)
        for query, more in rows.items():
            queries[query] = QueryProgress("partial", queries[query].rows + more)
        entry.public = replace(
            entry.public,
            queries=queries,
            rows_read=entry.public.rows_read + rows_read,
            rows_rejected=entry.public.rows_rejected + rows_rejected,
        )
        self._changed[job] = None
        self._settle(entry)

    def computing(self) -> list[Computing]:
        return [
            Computing(
                entry.public.job,
                tuple(entry.reduced),
                entry.public.created_ms,
                {query: entry.public.queries[query].rows for query in ("q1", "q2")},
                entry.fastest_of_all,
            )
            for entry in self._entries.values()
            if entry.public.state is State.COMPUTING
        ]

    def complete(self, job: str, summary: dict[str, Any]) -> None:
        """`summary` as in summary.json."""
        entry = self._entries[job]
        rows: dict[str, int] = summary["queries"]
        self._close(entry)
        entry.public = replace(
            entry.public,
            state=State.COMPLETE,
            queries={query: QueryProgress("complete", rows[query]) for query in QUERIES},
            summary=summary,
        )
        self._changed[job] = None
        self._endings += [(job, ResultEnd(query, rows[query])) for query in QUERIES]

    def fail(self, job: str, reason: str) -> None:
        entry = self._entries[job]
        self._end(entry, State.FAILED, reason, entry.public.updated_ms)

    def _receiving(self) -> list[Entry]:
        return [each for each in self._entries.values() if each.public.state is State.RECEIVING]

    def _settle(self, entry: Entry) -> None:
        is_here = all(file.is_complete for file in entry.files.values())
        if (
            entry.public.state is State.RECEIVING
            and is_here
            and entry.airports is not None
            and not entry.files["itineraries"].pieces
        ):
            entry.public = replace(entry.public, state=State.COMPUTING)
            self._changed[entry.public.job] = None

    def _end(self, entry: Entry, state: State, reason: str, at_ms: int) -> None:
        """Failed or deleted. What is done already can only be deleted."""
        job = entry.public.job
        was_final = entry.public.state.is_final
        if entry.public.state is state or (was_final and state is State.FAILED):
            return
        self._close(entry)
        told = reason if state is State.FAILED else None
        entry.public = replace(entry.public, state=state, reason=told, updated_ms=at_ms)
        self._changed[job] = None
        if not was_final:
            self._endings += [(job, ResultEnd(query, None, reason)) for query in QUERIES]

    def _close(self, entry: Entry) -> None:
        """Nothing that is staged of it is needed from now on."""
        entry.drop_staged()
        if not entry.public.state.is_final:
            self._open_bytes -= entry.size

    # What becomes of it

    def endings(self) -> list[tuple[str, ResultEnd]]:
        """The last records of jobs that have ended since the last call."""
        found, self._endings = self._endings, []
        return found

    def changed(self) -> list[tuple[str, bytes | None]]:
        """Key and value for `flights.jobs` of all that have changed since the last call."""
        found = [(job, self._value(job)) for job in self._changed]
        self._changed = {}
        return found

    def _value(self, job: str) -> bytes | None:
        entry = self._entries.get(job)
        if entry is None:
            return None
        progress = {name: file.progress for name, file in entry.files.items()}
        entry.public = replace(entry.public, files=progress)
        return entry.to_json()

    def paths(self) -> set[str]:
        """Everything that was staged and is still needed."""
        return {path for entry in self._entries.values() for path in entry.paths()}

    def with_results(self) -> set[str]:
        """Jobs whose files of results are to be kept."""
        return {
            job
            for job, entry in self._entries.items()
            if entry.public.state is State.COMPLETE and not entry.public.expired
        }

    def lose(self, is_there: Iterable[str]) -> None:
        """Only these of `paths` are left: jobs that need others cannot go on."""
        there = set(is_there)
        for job, entry in self._entries.items():
            if not entry.public.state.is_final and not entry.paths() <= there:
                self.fail(job, LOST)

    # Time

    def due(self, now_ms: int) -> list[str]:
        """Jobs whose time has come: the request `expire` is to be written for them."""
        return [job for job, entry in self._entries.items() if self._is_due(entry, now_ms)]

    def _is_due(self, entry: Entry, at_ms: int) -> bool:
        public = entry.public
        age_ms = at_ms - public.updated_ms
        if public.state is State.RECEIVING:
            return age_ms >= self._limits.abandon_ms
        return public.state.is_final and age_ms >= (FORGET_MS if public.expired else self._limits.keep_ms)

    def _expire(self, entry: Entry, at_ms: int) -> None:
        if not self._is_due(entry, at_ms):
            return  # a message came in between
        job = entry.public.job
        if entry.public.state is State.RECEIVING:
            seconds = self._limits.abandon_ms // 1000
            self._end(entry, State.FAILED, f"abandoned: no message came for {seconds} s", at_ms)
            return
        self._changed[job] = None
        if entry.public.expired:
            del self._entries[job]
        else:
            entry.public = replace(entry.public, expired=True)

    def _touch(self, entry: Entry, at_ms: int) -> None:
        entry.public = replace(entry.public, updated_ms=max(entry.public.updated_ms, at_ms))
        self._changed[entry.public.job] = None
