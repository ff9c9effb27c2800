"""The Flights endpoints of a gateway, and the service behind them, in memory; with faults that a test wants.

Results are what the test puts there. A job is complete when both files have ended, unless it `holds`.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
from collections import deque
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qs, urlsplit

from penstock.flights.chunks import ChunkError, check_chunk
from penstock.flights.jobs import FILES, QUERIES, FileProgress, Job, QueryProgress, State
from penstock.pipelines.flights.schemas import RESULT_COLUMNS

if TYPE_CHECKING:
    from types import TracebackType

Answer = tuple[int, dict[str, Any], dict[str, str]]
Fault = Answer | Literal["cut", "drop", "half", "lose", "last", "forget"] | None
"""What is answered in place of the next request; or no answer, before it is read or before or after it is
carried out; or the answer is the last on its connection; or the gateway has forgotten all that it had of the
file; or all is well."""

SUMMARY = {
    "rows_read": 7,
    "rows_rejected": 1,
    "rejected": {"empty legId": 1},
    "left_out": {"q2": {"unknown airport": 2}, "q3": {}},
    "average_fare": 12.345,
    "queries": dict.fromkeys(QUERIES, 0),
    "seconds": 1.25,
}


@dataclass
class FakeFile:
    chunks: dict[int, bytes] = field(default_factory=dict)
    next: int = 0
    end: int | None = None
    puts: list[int] = field(default_factory=list)

    def content(self) -> bytes:
        return b"".join(self.chunks[number] for number in sorted(self.chunks))

    def progress(self) -> FileProgress:
        told = sum(len(self.chunks[number]) for number in range(self.next))
        return FileProgress(self.next, self.next, self.end, told, len(self.puts) - len(set(self.puts)))


@dataclass
class FakeJob:
    state: State = State.RECEIVING
    reason: str | None = None
    files: dict[str, FakeFile] = field(default_factory=lambda: {file: FakeFile() for file in FILES})
    results: dict[str, list[str]] = field(default_factory=lambda: {query: [] for query in QUERIES})
    holds: bool = False

    def public(self, job: str) -> Job:
        found = Job(job, self.state, self.reason, 1_700_000_000_000, 1_700_000_001_000)
        rows = {query: len(lines) for query, lines in self.results.items()}
        ready: Literal["partial", "complete"] = "complete" if self.state is State.COMPLETE else "partial"
        return replace(
            found,
            files={name: each.progress() for name, each in self.files.items()},
            queries={query: QueryProgress(ready, count) for query, count in rows.items()},
            rows_read=7,
            summary=SUMMARY | {"queries": rows} if self.state is State.COMPLETE else None,
        )


class FakeFlights:
    def __init__(self) -> None:
        self.jobs: dict[str, FakeJob] = {}
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.connections = 0
        self.faults: deque[Fault] = deque()
        """For the next PUT and POST requests."""
        self.cuts: deque[int | Literal["end"]] = deque()
        """For the next streams: after how many lines the connection breaks, or that it ends at once."""
        self.prepared = FakeJob()
        """What new jobs are like."""
        self.changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._stopping = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def only(self) -> tuple[str, FakeJob]:
        ((job, found),) = self.jobs.items()
        return job, found

    def change(self, job: str, **values: Any) -> None:
        with self.changed:
            for name, value in values.items():
                setattr(self.jobs[job], name, value)
            self.changed.notify_all()

    def add_rows(self, job: str, query: str, *lines: str) -> None:
        with self.changed:
            self.jobs[job].results[query] += lines
            self.changed.notify_all()

    # Requests

    def answer(self, method: str, target: str, body: bytes) -> Answer | None:
        parts = urlsplit(target)
        message = parse_qs(parts.query).get("message", ["0"])[0]
        with self.changed:
            fault = self.faults.popleft() if self.faults and method in ("PUT", "POST") else None
            if isinstance(fault, tuple):
                return fault
            if fault == "drop":
                return None
            path = parts.path.removeprefix("/v1/flights/jobs").strip("/").split("/")
            answer = self._serve(method, path, int(message), body, fault == "forget")
            self.changed.notify_all()
            if fault in ("half", "last"):
                return answer[0], answer[1], {"Connection": "close", "Cut-Off": str(fault == "half")}
            return None if fault == "lose" else answer

    def _serve(self, method: str, path: list[str], message: int, body: bytes, forgets: bool) -> Answer:
        if path == [""]:
            if method == "GET":
                jobs = [found.public(job).as_dict() for job, found in self.jobs.items()]
                return ok(jobs=jobs, service="running")
            job = json.loads(body)["job"]
            if job not in self.jobs:
                results = {query: list(lines) for query, lines in self.prepared.results.items()}
                self.jobs[job] = FakeJob(results=results, holds=self.prepared.holds)
            return ok(job=job)
        found = self.jobs.get(path[0])
        if found is None:
            return failure(404, f"there is no job {path[0]}")
        if method == "DELETE":
            found.state = State.DELETED
            return ok(message="deleted")
        if found.state is State.DELETED:
            return failure(410, f"the job {path[0]} was deleted")
        if len(path) == 1:
            return ok(**found.public(path[0]).as_dict(), service="running")
        if found.state is State.FAILED:
            return failure(409, f"the job has failed: {found.reason}", next=0, state="failed")
        file = found.files[path[1]]
        if forgets:
            file.next = 0
        if path[2:] == ["end"]:
            return self._end(found, file, json.loads(body)["messages"])
        return self._put(path[1], file, message, body)

    def _put(self, name: str, file: FakeFile, message: int, body: bytes) -> Answer:
        if message < file.next:
            return ok(next=file.next, duplicate=True)
        if message > file.next or file.end is not None:
            return failure(409, "a gap, or the end", next=file.next)
        try:
            check_chunk(name, message, body)
        except ChunkError as error:
            return failure(400, str(error))
        assert file.chunks.setdefault(message, body) == body, "not what it was before"
        file.puts.append(message)
        file.next += 1
        return ok(next=file.next)

    def _end(self, job: FakeJob, file: FakeFile, messages: int) -> Answer:
        if messages != file.next:
            return failure(409, "not the end", next=file.next)
        file.end = messages
        if all(each.end is not None for each in job.files.values()) and not job.holds:
            job.state = State.COMPLETE
        return ok(next=messages)

    # Streams

    def lines(self, job: str, query: str, seen: int, follow: bool) -> list[str] | None:
        """Those after the ones that were seen; None at the end."""
        with self.changed:
            while True:
                found = self.jobs[job]
                if (lines := found.results[query][seen:]) or self._stopping:
                    return lines or None
                if found.state.is_final or not follow:
                    return None
                self.changed.wait()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(ConnectionError):  # the client has left
                    super().handle()

            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                fake.connections += 1
                super().setup()

            def answer(self) -> None:
                if fake.faults and fake.faults[0] == "cut" and self.command != "GET":
                    fake.faults.popleft()
                    self.close_connection = True  # with the body unread, which resets the connection
                    return
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                fake.requests.append((self.command, self.path, dict(self.headers.items())))
                if match := re.fullmatch("/v1/flights/jobs/([^/]+)/results/(q[1-4])[?](.*)", self.path):
                    job, query, options = match.groups()
                    if job in fake.jobs:
                        self.stream(job, query, {name: v[0] for name, v in parse_qs(options).items()})
                        return
                answer = fake.answer(self.command, self.path, body)
                if answer is None:
                    self.close_connection = True
                    return
                status, fields, headers = answer
                content = json.dumps(fields).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(
                    content[: len(content) // 2] if headers.get("Cut-Off") == "True" else content
                )

            def stream(self, job: str, query: str, options: dict[str, str]) -> None:
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                cut = fake.cuts.popleft() if fake.cuts else None
                seen = 0
                if options["format"] == "csv":
                    self.chunk(",".join(RESULT_COLUMNS[query]) + "\n")
                while cut != "end" and (lines := fake.lines(job, query, seen, options["follow"] == "1")):
                    for line in lines:
                        if seen == cut:  # in the middle of a line
                            self.chunk(line[:3])
                            self.connection.shutdown(socket.SHUT_RDWR)
                            self.close_connection = True
                            return
                        self.chunk(to_format(options["format"], query, line) + "\n")
                        seen += 1
                if fake.jobs[job].state in (State.FAILED, State.DELETED):
                    if options["format"] == "csv":
                        self.connection.shutdown(socket.SHUT_RDWR)
                        self.close_connection = True
                        return
                    self.chunk(
                        json.dumps({"status": "failure", "message": "no more"}).replace(": ", ":") + "\n"
                    )
                self.wfile.write(b"0\r\n\r\n")

            def chunk(self, text: str) -> None:
                data = text.encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

            do_GET = do_PUT = do_POST = do_DELETE = answer  # noqa: N815 - the standard library's names

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - likewise
                pass

        return Handler

    def __enter__(self) -> FakeFlights:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self.changed:
            self._stopping = True
            self.changed.notify_all()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def to_format(form: str, query: str, line: str) -> str:
    if form == "csv":
        return line
    return json.dumps(dict(zip(RESULT_COLUMNS[query], line.split(","), strict=True)))


def ok(**fields: Any) -> Answer:
    return 200, fields, {}


def failure(status: int, message: str, **fields: Any) -> Answer:
    return status, {"status": "failure", "message": message, **fields}, {}
