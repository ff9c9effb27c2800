"""The client and a gateway that refuses, breaks off, loses answers and forgets: every chunk arrives, in
order, and every row is given once.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.client.errors import (
    ClosedError,
    DisconnectedServerError,
    NotAuthorizedError,
    PenstockError,
    ServerError,
)
from penstock.flights import (
    FlightsClient,
    JobDeletedError,
    JobFailedError,
    JobNotFoundError,
    ResultsLostError,
    State,
    UploadError,
    result_stream,
)
from tests.support.ports import free_port
from tests.support.wait import wait_until
from tests.unit.flights.fake_gateway import FakeFlights, Fault, failure
from tests.unit.flights.tables import Tables, write_tables

CHUNKS = 4
JOB = str(uuid.UUID(int=7))


@pytest.fixture
def client(gateway: FakeFlights) -> Iterator[FlightsClient]:
    with FlightsClient(gateway.url, timeout_s=20) as made:
        yield made


def assert_uploaded(gateway: FakeFlights, tables: Tables) -> None:
    _, found = gateway.only()
    assert found.files["itineraries"].content() == tables.itineraries.read_bytes()
    assert found.files["airports"].content() == tables.airports.read_bytes() + b"\n"
    assert found.files["itineraries"].end == len(found.files["itineraries"].chunks) == CHUNKS
    assert found.state is State.COMPLETE


def test_files_arrive_airports_first(gateway: FakeFlights, client: FlightsClient, tables: Tables) -> None:
    told: list[tuple[str, int]] = []
    job = client.create()
    client.upload(job, **tables.paths(), sent=lambda file, sent: told.append((file, sent)))
    assert_uploaded(gateway, tables)
    puts = [
        path.removeprefix(f"/v1/flights/jobs/{job}/") for kind, path, _ in gateway.requests if kind == "PUT"
    ]
    assert puts == ["airports?message=0", *(f"itineraries?message={number}" for number in range(CHUNKS))]
    sizes = {"airports": tables.airports.stat().st_size, "itineraries": tables.itineraries.stat().st_size}
    assert [file for file, _ in told] == sorted(file for file, _ in told)
    assert dict(told) == sizes
    assert gateway.connections <= 2  # kept open: one for the upload, one to ask
    assert client.status(job).files["itineraries"].next == CHUNKS


@pytest.mark.parametrize(
    "faults",
    [
        ["cut"],
        ["drop"],
        ["half"],
        ["lose"],
        ["last"],
        ["forget"],
        ["drop", "lose", "forget", "cut", "lose", "drop", "forget"],
        [failure(503, "no leader")] * 3,
        [failure(502, "")],
        [(429, {"message": "slowly"}, {"Retry-After": "0"})] * 5,
        [(429, {}, {})],
    ],
    ids=str,
)
@pytest.mark.parametrize("after", range(9))
def test_every_chunk_is_sent_whichever_request_fails(
    gateway: FakeFlights, client: FlightsClient, tables: Tables, faults: list[Fault], after: int
) -> None:
    """`after` requests go well: create, airports, its end, four chunks, their end."""
    fine: list[Fault] = [None] * after
    gateway.faults.extend([*fine, *faults])
    client.upload(client.create(), **tables.paths())
    assert_uploaded(gateway, tables)


def test_a_told_pause_is_kept(gateway: FakeFlights, client: FlightsClient, tables: Tables) -> None:
    job = client.create()
    gateway.faults.append((429, {"message": "slowly"}, {"Retry-After": "1"}))
    began = time.monotonic()
    client.upload(job, **tables.paths())
    assert time.monotonic() - began >= 1
    assert_uploaded(gateway, tables)


def test_another_client_goes_on(gateway: FakeFlights, client: FlightsClient, tables: Tables) -> None:
    job = client.create()

    class EnoughError(Exception):
        pass

    def stop(file: str, sent: int) -> None:
        if file == "itineraries":
            raise EnoughError

    with pytest.raises(EnoughError):
        client.upload(job, **tables.paths(), sent=stop)
    assert gateway.jobs[job].files["itineraries"].next >= 1
    with FlightsClient(gateway.url) as other:
        assert other.create(job) == job
        other.upload(job, **tables.paths())
        other.upload(job, **tables.paths())  # nothing is left to be done
    assert_uploaded(gateway, tables)
    assert gateway.jobs[job].files["itineraries"].puts == list(range(CHUNKS))


def test_somebody_else_is_ahead(gateway: FakeFlights, client: FlightsClient, tables: Tables) -> None:
    job = client.create()

    def overtake(file: str, sent: int) -> None:
        if gateway.jobs[job].files["itineraries"].next == 1:
            client.upload(job, **tables.paths())

    client.upload(job, **tables.paths(), sent=overtake)
    assert_uploaded(gateway, tables)


def test_a_job_goes_on_only_with_its_own_files(
    gateway: FakeFlights, client: FlightsClient, tables: Tables
) -> None:
    job = client.create()
    gateway.prepared.holds = True
    client.upload(job, **tables.paths())
    found = gateway.jobs[job].files["itineraries"]
    content = tables.itineraries.read_bytes()

    def expect(changed: bytes, complaint: str) -> None:
        tables.itineraries.write_bytes(changed)
        with pytest.raises(UploadError, match=complaint):
            client.upload(job, **tables.paths())

    expect(content + b"more\n", "not the same file")
    gateway.change(job, state=State.RECEIVING)
    found.end, found.next = None, 2
    expect(content.replace(b"leg000001", b"leg1", 1), "its first 2 chunks have")
    expect(content[:1000] + b"\n", "it has 1 chunks, and the job has 2: it is not the same file")
    tables.itineraries.write_bytes(content)
    client.upload(job, **tables.paths())
    assert found.end == CHUNKS


def test_nothing_is_sent_of_files_that_cannot_be_used(
    gateway: FakeFlights, client: FlightsClient, tables: Tables
) -> None:
    job = client.create()
    requests = len(gateway.requests)
    good = tables.paths()
    for changed, complaint in (
        ({"airports": str(tables.itineraries)}, "no ';' in the header line"),
        ({"itineraries": str(tables.airports)}, "no ',' in the header line"),
        ({"airports": "/no/such"}, "/no/such: No such file or directory"),
        ({"itineraries": str(tables.airports.parent)}, "Is a directory"),
        ({"itineraries": "/dev/null"}, "not a regular file"),
    ):
        with pytest.raises(UploadError, match=complaint):
            client.upload(job, **good | changed)
    assert len(gateway.requests) == requests


def test_a_line_that_is_too_long_is_named_by_its_number(
    gateway: FakeFlights, client: FlightsClient, tables: Tables
) -> None:
    with tables.itineraries.open("a") as file:
        file.write("x" * 600_000)
    job = client.create()
    gateway.faults.extend([None] * 4 + ["forget"])
    with pytest.raises(UploadError, match=r"itineraries\.csv: line 40002 is longer than 524288 bytes"):
        client.upload(job, **tables.paths())


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (failure(400, "NUL bytes"), UploadError, "itineraries: NUL bytes"),
        (failure(404, "no such job"), JobNotFoundError, "no such job"),
        (failure(410, "gone"), JobDeletedError, "gone"),
        (failure(413, "too much"), UploadError, "too much"),
        (failure(401, "a token is needed"), NotAuthorizedError, "a token is needed"),
        (failure(500, "internal error"), ServerError, "internal error"),
        (failure(409, "odd"), UploadError, "odd"),
        (failure(409, "odd", next=0), UploadError, "odd"),
    ],
    ids=str,
)
def test_refusals_end_it(
    gateway: FakeFlights,
    client: FlightsClient,
    tables: Tables,
    answer: Fault,
    kind: type[PenstockError],
    says: str,
) -> None:
    job = client.create()
    client._created.clear()  # long ago
    gateway.faults.extend([None] * 2 + [answer])
    with pytest.raises(kind, match=says):
        client.upload(job, **tables.paths())


def test_a_job_that_fails_or_is_deleted_ends_the_upload(
    gateway: FakeFlights, client: FlightsClient, tables: Tables
) -> None:
    job = client.create()

    def fail(file: str, sent: int) -> None:
        gateway.change(job, state=State.FAILED, reason="too many bytes")

    with pytest.raises(JobFailedError, match=f"job {job} failed: too many bytes"):
        client.upload(job, **tables.paths(), sent=fail)
    with pytest.raises(JobFailedError):
        client.upload(job, **tables.paths())
    with pytest.raises(JobFailedError):
        client.wait(job)
    client.delete(job)
    with pytest.raises(JobDeletedError):
        client.upload(job, **tables.paths())


def test_a_job_that_a_gateway_has_not_heard_of_yet(
    gateway: FakeFlights, client: FlightsClient, tables: Tables
) -> None:
    job = client.create()
    gateway.faults.extend([failure(404, "no such job")] * 2)
    client.upload(job, **tables.paths())
    assert_uploaded(gateway, tables)


def test_a_gateway_that_is_away_is_given_up_when_told_so(tables: Tables) -> None:
    reasons: list[str] = []
    client = FlightsClient(f"http://127.0.0.1:{free_port()}", timeout_s=1.5, waiting=reasons.append)
    with client, pytest.raises(DisconnectedServerError, match=r"gave up after 1\.5 s: Connection refused"):
        client.create()
    assert set(reasons) == {"Connection refused"}


def test_a_gateway_that_only_refuses_is_given_up(gateway: FakeFlights, tables: Tables) -> None:
    with FlightsClient(gateway.url, timeout_s=0.5) as client:
        job = client.create()
        gateway.faults.extend([failure(503, "no leader")] * 100)
        with pytest.raises(DisconnectedServerError, match=r"airports: gave up after 0\.5 s: no leader"):
            client.upload(job, **tables.paths())


def rows(first: int, end: int) -> list[str]:
    return [f"leg{number},AAA,BBB,{number}" for number in range(first, end)]


def test_rows_are_given_once_however_often_the_stream_breaks(
    gateway: FakeFlights, client: FlightsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_stream, "STATE_S_MAX", 0.1)
    job = client.create()
    gateway.cuts.extend([0, 0, 3, "end", 2, 7, 5, "end"])
    gateway.add_rows(job, "q2", *rows(0, 5))
    found: list[dict[str, Any]] = []
    stream = client.results(job, "q2")
    found.extend(next(stream) for _ in range(5))
    gateway.add_rows(job, "q2", *rows(5, 9))
    gateway.change(job, state=State.COMPLETE)
    found.extend(stream)
    assert [row["legId"] for row in found] == [f"leg{number}" for number in range(9)]
    assert not gateway.cuts


def test_csv_has_its_heading_once(gateway: FakeFlights, client: FlightsClient) -> None:
    job = client.create()
    gateway.add_rows(job, "q2", *rows(0, 5))
    gateway.change(job, state=State.COMPLETE)
    gateway.cuts.extend(["end", 0, 2])
    heading = "legId,startingAirport,destinationAirport,totalTravelDistance"
    text = b"".join(client.result_lines(job, "q2")).decode()
    assert text.splitlines() == [heading, *rows(0, 5)]
    gateway.cuts.extend([1])
    assert b"".join(client.result_lines(job, "q2", follow=False)).decode() == text
    assert b"".join(client.result_lines(job, "q3", follow=False)).decode().count("\n") == 1


def test_rows_that_are_there_are_not_waited_for(gateway: FakeFlights, client: FlightsClient) -> None:
    job = client.create()
    gateway.add_rows(job, "q2", *rows(0, 2))
    assert len(list(client.results(job, "q2", follow=False))) == 2


@pytest.mark.parametrize("form", ["csv", "ndjson"])
@pytest.mark.parametrize("state", [State.FAILED, State.DELETED])
def test_a_stream_of_a_job_that_ends_badly(
    gateway: FakeFlights, client: FlightsClient, state: State, form: result_stream.Format
) -> None:
    job = client.create()
    gateway.add_rows(job, "q1", "leg0,AAA,BBB,1,C||D||E")
    stream = client.result_lines(job, "q1", form)
    while b"leg0" not in next(stream):
        pass
    gateway.change(job, state=state, reason="a bad file")
    with pytest.raises(JobFailedError if state is State.FAILED else JobDeletedError):
        next(stream)


def test_rows_that_are_no_longer_kept(
    gateway: FakeFlights, client: FlightsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_stream, "FRUITLESS_S_MAX", 0.5)
    job = client.create()
    gateway.add_rows(job, "q2", *rows(0, 4))
    gateway.change(job, state=State.COMPLETE)
    gateway.cuts.extend(["end"] * 100)
    with pytest.raises(ResultsLostError):
        list(client.results(job, "q2"))


def test_more_rows_than_there_are(gateway: FakeFlights, client: FlightsClient) -> None:
    job = client.create()
    gateway.add_rows(job, "q2", *rows(0, 4))
    gateway.change(job, state=State.COMPLETE)
    stream = client.result_lines(job, "q2")
    for _ in range(5):
        next(stream)
    gateway.jobs[job].results["q2"].pop()
    with pytest.raises(ServerError, match="4 rows came, and there are 3"):
        next(stream)


def test_close_ends_what_other_threads_do(gateway: FakeFlights) -> None:
    client = FlightsClient(gateway.url)
    job = client.create()
    failures: list[BaseException] = []

    def caught(call: Callable[[], object]) -> threading.Thread:
        def run() -> None:
            try:
                call()
            except PenstockError as error:
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    threads = [caught(lambda: list(client.results(job, "q1"))), caught(lambda: client.wait(job))]
    wait_until(lambda: any("/results/" in path for _, path, _ in gateway.requests), "a stream")
    client.close()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert [type(failure) for failure in failures] == [ClosedError, ClosedError]
    with pytest.raises(ClosedError):
        client.jobs()


def test_jobs_of_several_clients_side_by_side(gateway: FakeFlights, tmp_path: Any) -> None:
    gateway.faults.extend(["drop", "lose", "forget"] * 4)
    tables = write_tables(tmp_path, 20_000)
    with FlightsClient(gateway.url) as client:
        jobs = [client.create() for _ in range(3)]
        threads = [threading.Thread(target=client.upload, args=(job,), kwargs=tables.paths()) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert {found.job for found in client.jobs()} == set(jobs)
    for found in gateway.jobs.values():
        assert found.files["itineraries"].content() == tables.itineraries.read_bytes()


def test_the_token_is_sent(gateway: FakeFlights) -> None:
    with FlightsClient(gateway.url, token="secret") as client:
        client.jobs()
    assert gateway.requests[0][2]["Authorization"] == "Bearer secret"
    with pytest.raises(ValueError, match="printable ASCII"):
        FlightsClient(gateway.url, token="a b")


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8080", "ftp://a", "http://", "http://a:0", "http://a:x", "http://a?b"]
)
def test_wrong_addresses(url: str) -> None:
    with pytest.raises(ValueError):
        FlightsClient(url)


def test_wrong_arguments(client: FlightsClient) -> None:
    with pytest.raises(ValueError, match="not the UUID"):
        client.status("x")
    with pytest.raises(ValueError, match="'q5' is not one of the queries"):
        list(client.results(JOB, "q5"))
    with pytest.raises(JobNotFoundError, match=f"there is no job {JOB}"):
        client.status(JOB)
    with pytest.raises(JobNotFoundError):
        list(client.results(JOB, "q1"))
    with pytest.raises(JobNotFoundError):
        client.delete(JOB)
