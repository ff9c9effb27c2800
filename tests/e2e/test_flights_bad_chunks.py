"""What no file is made of, sent to the Flights service by clients that are mistaken, broken or mean: each is
told why, the gateway keeps its memory, and a good client beside them is not disturbed.

Here the gateway and the commands are asked, and nobody computes. What becomes of bad chunks that are written
past the gateway is in tests/pipelines/test_flights_service_faults.py.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx
import pytest

from penstock.flights import FlightsClient
from penstock.flights.chunks import CHUNK_BYTES_MAX
from penstock.flights.records import End, parse_upload
from penstock.flights.topics import FILE_TOPICS, PARTITIONS
from penstock.pipelines.flights.generate import generate
from tests.support.commands import penstock
from tests.support.flights_jobs import committed, uploads_of
from tests.support.processes import memory_bytes
from tests.support.wait import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.broker import BrokerProcess
    from tests.support.gateway import GatewayProcess

JOBS = "/v1/flights/jobs"
TWO_GB = 2 * 1024**3
MEMORY_MAX = 64 * 1024**2
"""What the gateway may have more than before, whatever it is sent."""
ANSWER_S_MAX = 20.0
STALLED = 160
"""Clients that send the beginning of a chunk: more than there is room for."""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("table")
    generate(10_000, str(folder), seed=3)
    return folder


@pytest.fixture
def job(file_gateway: GatewayProcess) -> str:
    return create(file_gateway)


def create(gateway: GatewayProcess) -> str:
    return str(gateway.post(JOBS, {}).json()["job"])


def put(gateway: GatewayProcess, job: str, message: int, body: Any) -> httpx.Response:
    return gateway.request("PUT", f"{JOBS}/{job}/itineraries", params={"message": message}, content=body)


def refused(answer: httpx.Response, status: int, words: str) -> dict[str, Any]:
    """That it was, in the words that all refusals have."""
    assert answer.status_code == status, answer.text
    told: dict[str, Any] = answer.json()
    assert told["status"] == "failure"
    assert words in told["message"]
    return told


def files_of(folder: Path) -> dict[str, Path]:
    return {name: folder / f"{name}.csv" for name in FILE_TOPICS}


def first_chunk(folder: Path) -> bytes:
    uploads = uploads_of(files_of(folder))
    return next(each.value or b"" for each in uploads if each.file == "itineraries")


def written(broker: BrokerProcess, job: str) -> dict[str, list[tuple[int, bytes] | int]]:
    """What the topics have of a job: messages, and numbers for ends."""
    found: dict[str, list[tuple[int, bytes] | int]] = {}
    for file, topic in FILE_TOPICS.items():
        found[file] = []
        for message in committed(broker.bootstrap, topic, PARTITIONS):
            if message.key() != job.encode():
                continue
            upload = parse_upload(message.headers())  # type: ignore[arg-type] # a list, as it comes from a broker
            value = message.value() or b""
            assert isinstance(value, bytes)
            found[file].append(upload.messages if isinstance(upload, End) else (upload.message, value))
    return found


def is_complete(broker: BrokerProcess, job: str, folder: Path) -> bool:
    """Whether the topics have just this file, each message once, in order, and its end."""
    wanted: dict[str, list[tuple[int, bytes] | int]] = {name: [] for name in FILE_TOPICS}
    for each in uploads_of(files_of(folder)):
        number = int(each.headers[0][1])
        wanted[each.file].append(number if each.value is None else (number, each.value))
    return written(broker, job) == wanted


def test_every_bad_chunk_is_refused_and_the_good_one_is_taken_afterwards(
    file_gateway: GatewayProcess, file_broker: BrokerProcess, table: Path, job: str
) -> None:
    good = first_chunk(table)
    bad = {
        "send whole lines": good[:-7],
        "missing column 'legId'": good.replace(b"legId", b"leg", 1),
        "no ',' in the header line": b"PK\3\4\1\2\n",
        "NUL": good[:100_000] + b"\0\n",
        "not UTF-8": b"\xff\xfe" + good,
        "empty": b"",
        "more than once": b"legId," + good,
    }
    for words, body in bad.items():
        refused(put(file_gateway, job, 0, body), 400, words)
    refused(put(file_gateway, job, 0, b"x" * (CHUNK_BYTES_MAX + 1)), 413, str(CHUNK_BYTES_MAX))
    assert refused(put(file_gateway, job, 1, good), 409, "0 is next")["next"] == 0
    end = file_gateway.post(f"{JOBS}/{job}/itineraries/end", {"messages": 3})
    assert refused(end, 409, "3 messages of itineraries would be the end")["next"] == 0
    refused(put(file_gateway, str(uuid4()), 0, good), 404, "no job")
    assert put(file_gateway, job, 0, good).json() == {"next": 1}
    assert file_gateway.post(f"{JOBS}/{job}/itineraries/end", {"messages": 1}).json() == {"next": 1}
    assert refused(put(file_gateway, job, 1, good), 409, "itineraries ended after 1 messages")["next"] == 1
    assert written(file_broker, job) == {"airports": [], "itineraries": [(0, good), 1]}


def ask_raw(gateway: GatewayProcess, job: str, headers: str, bodies: Callable[[], Iterator[bytes]]) -> str:
    """The first line of the answer to a request whose body goes on as long as it can."""
    with closing(
        socket.create_connection(("127.0.0.1", gateway.port), timeout=ANSWER_S_MAX * PATIENCE)
    ) as sock:
        line = f"PUT {JOBS}/{job}/itineraries?message=0 HTTP/1.1\r\nhost: 127.0.0.1\r\n{headers}\r\n\r\n"
        sock.sendall(line.encode())
        try:
            for body in bodies():
                sock.sendall(body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has heard enough
        answer = b""
        try:
            while not answer.endswith(b"}") and (piece := sock.recv(65536)):
                answer += piece
        except ConnectionResetError:
            assert answer, "the connection was reset before anything was said"
        return answer.decode()


def test_a_line_of_two_gigabytes_costs_the_gateway_no_memory(
    file_gateway: GatewayProcess, table: Path, job: str
) -> None:
    assert put(file_gateway, create(file_gateway), 0, first_chunk(table)).status_code == 200
    before = memory_bytes(file_gateway.pid)
    block = b"x" * 65536

    def nothing() -> Iterator[bytes]:
        return iter(())

    def two_gigabytes() -> Iterator[bytes]:
        for _ in range(TWO_GB // len(block)):
            yield b"%x\r\n%s\r\n" % (len(block), block)

    for headers, bodies in (
        (f"content-length: {TWO_GB}", nothing),
        (f"content-length: {TWO_GB}", lambda: iter([block] * 64)),
        ("transfer-encoding: chunked", two_gigabytes),
    ):
        answer = ask_raw(file_gateway, job, headers, bodies)
        assert answer.startswith("HTTP/1.1 413 "), answer
        assert json.loads(answer.partition("\r\n\r\n")[2])["status"] == "failure"
    assert memory_bytes(file_gateway.pid) - before < MEMORY_MAX
    assert put(file_gateway, job, 0, first_chunk(table)).json() == {"next": 1}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is empty"),
        ("legId,totalFare\n", "missing columns 'startingAirport'"),
        ("\0\1\2\3" * 1000, "no ',' in the header line"),
    ],
    ids=["nothing", "wrong columns", "binary"],
)
def test_a_file_that_is_none(
    file_gateway: GatewayProcess, table: Path, tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "itineraries.csv").write_text(text)
    assert words in submit_complaint(file_gateway, tmp_path / "itineraries.csv", table)


def submit_complaint(gateway: GatewayProcess, itineraries: Path, table: Path, *options: str) -> str:
    """The last line of a command that failed."""
    finished = penstock(
        *("flights", "submit", "--http", gateway.url, "--itineraries", str(itineraries)),
        *("--airports", str(table / "airports.csv"), "--timeout", "30", *options),
    )
    assert finished.code == 1, finished
    assert "Traceback" not in finished.err
    return finished.err.splitlines()[-1]


def test_a_file_with_a_line_of_two_gigabytes(
    file_gateway: GatewayProcess, table: Path, tmp_path: Path
) -> None:
    """The disk has no such file: it is all hole."""
    long = tmp_path / "long.csv"
    long.write_bytes(first_chunk(table))
    lines = long.read_bytes().count(b"\n")
    os.truncate(long, long.stat().st_size + TWO_GB)
    began = time.monotonic()
    assert f"line {lines + 1} is longer than" in submit_complaint(file_gateway, long, table)
    assert time.monotonic() - began < ANSWER_S_MAX * PATIENCE
    header = tmp_path / "header.csv"
    header.touch()
    os.truncate(header, TWO_GB)
    assert "no ',' in the header line" in submit_complaint(file_gateway, header, table)


def test_a_file_that_is_not_the_one_of_the_job(
    file_gateway: GatewayProcess, table: Path, tmp_path: Path, job: str
) -> None:
    other = tmp_path / "itineraries.csv"
    other.write_bytes(first_chunk(table))
    assert put(file_gateway, job, 0, first_chunk(table)).status_code == 200
    assert put(file_gateway, job, 1, first_chunk(table)).status_code == 200
    complaint = submit_complaint(file_gateway, other, table, "--job", job)
    assert "not the same file" in complaint


def test_a_good_client_among_bad_ones(
    file_gateway: GatewayProcess, file_broker: BrokerProcess, table: Path
) -> None:
    """Clients that never end their chunks, clients that send rubbish all the time, and one that is good."""
    bad, good = create(file_gateway), create(file_gateway)
    is_over = threading.Event()
    statuses: set[int] = set()

    def rubbish() -> None:
        with GatewayClient(file_gateway) as client:
            while not is_over.is_set():
                statuses.add(client.put(bad, 0, b"\0" * 1000 + b"\n"))
                statuses.add(client.put(bad, 7, b"a,b\n"))
                statuses.add(client.put(str(uuid4()), 0, b"a,b\n"))

    threads = [threading.Thread(target=rubbish) for _ in range(2)]
    with ExitStack() as stack:
        for _ in range(STALLED):
            stack.enter_context(closing(stalled(file_gateway, bad)))
        for thread in threads:
            thread.start()
        try:
            with FlightsClient(file_gateway.url, timeout_s=ANSWER_S_MAX * PATIENCE) as client:
                files = files_of(table)
                client.upload(good, itineraries=str(files["itineraries"]), airports=str(files["airports"]))
        finally:
            is_over.set()
            for thread in threads:
                thread.join()
    assert statuses <= {400, 404, 409, 429}, statuses
    assert is_complete(file_broker, good, table)
    assert written(file_broker, bad) == {"airports": [], "itineraries": []}


def stalled(gateway: GatewayProcess, job: str) -> socket.socket:
    """A client that has begun to send a chunk."""
    sock = socket.create_connection(("127.0.0.1", gateway.port), timeout=ANSWER_S_MAX)
    head = f"PUT {JOBS}/{job}/itineraries?message=0 HTTP/1.1\r\nhost: 127.0.0.1\r\n"
    sock.sendall(f"{head}content-length: {CHUNK_BYTES_MAX}\r\n\r\nlegId".encode())
    return sock


class GatewayClient:
    """For a thread of its own."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self._http = httpx.Client(base_url=gateway.url, timeout=ANSWER_S_MAX * PATIENCE, trust_env=False)

    def put(self, job: str, message: int, body: bytes) -> int:
        path = f"{JOBS}/{job}/itineraries"
        return int(self._http.put(path, params={"message": message}, content=body).status_code)

    def __enter__(self) -> GatewayClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()
