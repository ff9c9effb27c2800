"""Flights jobs over HTTP: a real broker, a real gateway, and a service that the test plays."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx
import pytest

from penstock.flights.chunks import CHUNK_BYTES_MAX
from penstock.flights.jobs import FileProgress, Job, QueryProgress, State
from penstock.flights.records import ResultEnd
from tests.support.broker import BrokerProcess
from tests.support.commands import penstock
from tests.support.fake_flights import FakeFlights, results_partition
from tests.support.gateway import GatewayProcess
from tests.support.wait import PATIENCE, wait_until

if TYPE_CHECKING:
    from pathlib import Path

JOBS = "/v1/flights/jobs"
AIRPORTS = b"Airport Code;Airport Name;Latitude;Longitude\n"
ITINERARIES = (
    b"legId,startingAirport,destinationAirport,travelDuration,totalFare,totalTravelDistance,"
    b"segmentsArrivalAirportCode\n"
)
ROW = b"a1,SFO,LAX,PT5H,110.6,1666,BOI||SJC||LAS||LAX\n"
Q1 = [b"a1,SFO,LAX,110.6,BOI||SJC||LAS", b"a2,SFO,DTW,475,PIT||CVG||IND"]
Q1_OBJECTS = [
    {"legId": "a1", "startingAirport": "SFO", "destinationAirport": "LAX", "totalFare": 110.6,
     "stopovers": "BOI||SJC||LAS"},
    {"legId": "a2", "startingAirport": "SFO", "destinationAirport": "DTW", "totalFare": 475,
     "stopovers": "PIT||CVG||IND"},
]  # fmt: skip
Q1_CSV = "legId,startingAirport,destinationAirport,totalFare,stopovers\n" + "".join(
    line.decode() + "\n" for line in Q1
)


@pytest.fixture(scope="module")
def service(file_broker: BrokerProcess, file_gateway: GatewayProcess) -> FakeFlights:
    create(file_gateway)  # makes the topics
    return FakeFlights(file_broker.bootstrap)


def create(gateway: GatewayProcess, **body: Any) -> str:
    answer = gateway.post(JOBS, body)
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {"job"}
    return str(answer.json()["job"])


def put(
    gateway: GatewayProcess, job: str, message: int | str, body: Any = ROW, file: str = "itineraries"
) -> httpx.Response:
    return gateway.request("PUT", f"{JOBS}/{job}/{file}", params={"message": message}, content=body)


def end(gateway: GatewayProcess, job: str, messages: Any, file: str = "itineraries") -> httpx.Response:
    return gateway.post(f"{JOBS}/{job}/{file}/end", {"messages": messages})


def status(gateway: GatewayProcess, job: str) -> dict[str, Any]:
    answer = gateway.get(f"{JOBS}/{job}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def wait_status(gateway: GatewayProcess, job: str, **fields: Any) -> dict[str, Any]:
    def known() -> dict[str, Any] | None:
        told = status(gateway, job)
        return told if all(told[name] == value for name, value in fields.items()) else None

    found = wait_until(known, f"a job with {fields}")
    assert found is not None
    return found


def told(job: str, **fields: Any) -> Job:
    """As the service would begin to tell of it."""
    return Job(job, created_ms=1, updated_ms=2, results_partition=results_partition(job), **fields)


def records(gateway: GatewayProcess, topic: str, job: str) -> list[dict[str, Any]]:
    partitions = gateway.get(f"/v1/topics/{topic}").json()["partitions"]
    return [
        message
        for partition in range(len(partitions))
        for message in gateway.get(
            f"/v1/topics/{topic}/messages", params={"partition": partition, "limit": 1_000}
        ).json()["messages"]
        if message["key"] == job
    ]


def headers_of(message: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in message["headers"]}


def metric(gateway: GatewayProcess, name: str) -> float:
    found = re.search(rf"^{re.escape(name)} (\S+)$", gateway.get("/metrics").text, re.MULTILINE)
    return float(found[1]) if found is not None else 0.0


def refused(answer: httpx.Response, code: int, *words: str) -> dict[str, Any]:
    assert answer.status_code == code, answer.text
    body = dict(answer.json())
    assert body["status"] == "failure"
    assert all(word in body["message"] for word in words), body
    return body


# Jobs


def test_a_job_from_beginning_to_end(file_gateway: GatewayProcess) -> None:
    before = metric(file_gateway, 'penstock_gateway_flights_chunks_total{file="itineraries"}')
    job = create(file_gateway)
    new = status(file_gateway, job)
    assert (new["state"], new["files"]["airports"]["next"], new["queries"]["q1"]["state"]) == (
        "receiving", 0, "later",
    )  # fmt: skip
    assert put(file_gateway, job, 0, AIRPORTS, "airports").json() == {"next": 1}
    assert end(file_gateway, job, 1, "airports").json() == {"next": 1}
    assert put(file_gateway, job, 0, ITINERARIES + ROW).json() == {"next": 1}
    assert put(file_gateway, job, 1).json() == {"next": 2}
    assert end(file_gateway, job, 2).json() == {"next": 2}
    assert [each["next"] for each in status(file_gateway, job)["files"].values()] == [1, 2]
    assert [each["messages"] for each in status(file_gateway, job)["files"].values()] == [1, 2]
    written = records(file_gateway, "flights.itineraries", job)
    assert [headers_of(each) for each in written] == [{"message": "0"}, {"message": "1"}, {"end": "2"}]
    assert [each["value"] for each in written] == [(ITINERARIES + ROW).decode(), ROW.decode(), None]
    assert len({each["partition"] for each in written}) == 1
    requests = records(file_gateway, "flights.requests", job)
    assert [json.loads(each["value"]) for each in requests] == [{"request": "create"}]
    assert metric(file_gateway, 'penstock_gateway_flights_chunks_total{file="itineraries"}') == before + 2


def test_a_job_with_an_id_of_ones_own(file_gateway: GatewayProcess, service: FakeFlights) -> None:
    job = str(uuid4())
    assert create(file_gateway, job=job.upper()) == job
    assert create(file_gateway, job=job) == job
    assert len(records(file_gateway, "flights.requests", job)) == 1
    service.tell(told(job, state=State.FAILED, reason="a bad file"))
    wait_status(file_gateway, job, state="failed", reason="a bad file")
    assert refused(file_gateway.post(JOBS, {"job": job}), 409, "a bad file")["state"] == "failed"


def test_a_job_says_which_flights_query_3_is_about(
    file_gateway: GatewayProcess, service: FakeFlights
) -> None:
    job = create(file_gateway, fastest_of="all")
    assert status(file_gateway, job)["fastest_of"] == "all"
    (request,) = records(file_gateway, "flights.requests", job)
    assert "all" in str(request)
    assert create(file_gateway, job=job) == create(file_gateway, job=job, fastest_of="all") == job
    refused(file_gateway.post(JOBS, {"job": job, "fastest_of": "many-stopovers"}), 409, "fastest of all")
    usual = create(file_gateway)
    assert status(file_gateway, usual)["fastest_of"] == "many-stopovers"
    refused(file_gateway.post(JOBS, {"job": usual, "fastest_of": "all"}), 409, "many-stopovers")
    service.tell(told(job, fastest_of="all"))
    refused(file_gateway.post(JOBS, {"fastest_of": "none"}), 400, "many-stopovers or all")


@pytest.mark.parametrize("body", [{"job": "x"}, {"job": 7}, {"fastest_of": 7}, [], "text"])
def test_what_is_no_id(file_gateway: GatewayProcess, body: Any) -> None:
    refused(file_gateway.post(JOBS, body), 400)


def test_jobs_are_listed_the_newest_first(file_gateway: GatewayProcess, service: FakeFlights) -> None:
    first, second, deleted = create(file_gateway), create(file_gateway), create(file_gateway)
    file_gateway.request("DELETE", f"{JOBS}/{deleted}")
    listed = [each["job"] for each in file_gateway.get(JOBS).json()["jobs"]]
    assert listed[:2] == [second, first]
    assert deleted not in listed
    assert len(file_gateway.get(JOBS, params={"limit": 1}).json()["jobs"]) == 1
    refused(file_gateway.get(JOBS, params={"limit": "x"}), 400)


def test_a_deleted_job(file_gateway: GatewayProcess, service: FakeFlights) -> None:
    job = create(file_gateway)
    for _ in range(2):
        answer = file_gateway.request("DELETE", f"{JOBS}/{job}")
        assert (answer.status_code, answer.json()) == (200, {"job": job, "state": "deleted"})
    requests = records(file_gateway, "flights.requests", job)
    assert [json.loads(each["value"])["request"] for each in requests] == ["create", "delete"]
    for answer in (
        file_gateway.get(f"{JOBS}/{job}"),
        file_gateway.get(f"{JOBS}/{job}/results/q1"),
        put(file_gateway, job, 0, ITINERARIES),
        end(file_gateway, job, 1),
    ):
        assert refused(answer, 410)["state"] == "deleted"
    refused(file_gateway.post(JOBS, {"job": job}), 409, "deleted")
    service.tell(told(job, state=State.DELETED))
    refused(file_gateway.get(f"{JOBS}/{job}"), 410)
    service.forget(job)
    wait_until(lambda: file_gateway.get(f"{JOBS}/{job}").status_code == 404, "a job that is forgotten")


def test_what_is_not_there(file_gateway: GatewayProcess) -> None:
    job = str(uuid4())
    for answer in (
        file_gateway.get(f"{JOBS}/{job}"),
        file_gateway.get(f"{JOBS}/{job}/results/q1"),
        file_gateway.request("DELETE", f"{JOBS}/{job}"),
        put(file_gateway, job, 0, ITINERARIES),
        end(file_gateway, job, 1),
    ):
        refused(answer, 404, job)
    job = create(file_gateway)
    refused(put(file_gateway, job, 0, ITINERARIES, "hotels"), 404, "hotels", "airports")
    refused(end(file_gateway, job, 1, "hotels"), 404, "hotels")
    refused(file_gateway.get(f"{JOBS}/{job}/results/q5"), 404, "q5", "q4")


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("DELETE", ""), ("GET", "/results/q1")])
def test_a_path_without_a_uuid(file_gateway: GatewayProcess, method: str, path: str) -> None:
    refused(file_gateway.request(method, f"{JOBS}/7{path}"), 400, "UUID")
    refused(put(file_gateway, "7", 0), 400, "UUID")
    refused(end(file_gateway, "7", 1), 400, "UUID")


# Chunks


def test_repeated_messages_gaps_and_ends(file_gateway: GatewayProcess) -> None:
    gaps = metric(file_gateway, 'penstock_gateway_flights_refused_total{reason="gap"}')
    job = create(file_gateway)
    assert refused(put(file_gateway, job, 1), 409, "gap")["next"] == 0
    assert refused(end(file_gateway, job, 1), 409)["next"] == 0
    put(file_gateway, job, 0, ITINERARIES)
    assert put(file_gateway, job, 0, ITINERARIES).json() == {"next": 1, "duplicate": True}
    assert refused(put(file_gateway, job, 7), 409)["next"] == 1
    put(file_gateway, job, 1)
    assert refused(end(file_gateway, job, 1), 409)["next"] == 2
    assert refused(end(file_gateway, job, 3), 409)["next"] == 2
    assert end(file_gateway, job, 2).json() == {"next": 2}
    assert end(file_gateway, job, 2).json() == {"next": 2, "duplicate": True}
    assert refused(end(file_gateway, job, 3), 409, "2")["next"] == 2
    assert refused(put(file_gateway, job, 2), 409, "ended after 2")["next"] == 2
    assert put(file_gateway, job, 1).json() == {"next": 2, "duplicate": True}
    assert len(records(file_gateway, "flights.itineraries", job)) == 3
    assert metric(file_gateway, 'penstock_gateway_flights_refused_total{reason="gap"}') == gaps + 5


@pytest.mark.parametrize("messages", [0, -1, 10**10, "2", None, True])
def test_an_end_that_is_no_number(file_gateway: GatewayProcess, messages: Any) -> None:
    refused(end(file_gateway, create(file_gateway), messages), 400, "messages")


@pytest.mark.parametrize("message", ["", "x", "-1", "1.5", str(10**9), "9" * 40])
def test_a_message_that_is_no_number(file_gateway: GatewayProcess, message: str) -> None:
    refused(put(file_gateway, create(file_gateway), message), 400, "message")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "empty"),
        (b"legId,startingAirport\n", "missing column"),
        (ITINERARIES + b"half a line", "line feed"),
        (ITINERARIES + b"\0\n", "NUL"),
    ],
)
def test_a_chunk_that_is_none(file_gateway: GatewayProcess, body: bytes, words: str) -> None:
    job = create(file_gateway)
    refused(put(file_gateway, job, 0, body), 400, words)
    assert status(file_gateway, job)["files"]["itineraries"]["next"] == 0


def test_the_largest_chunk_and_one_that_is_larger(file_gateway: GatewayProcess) -> None:
    job = create(file_gateway)
    largest = ITINERARIES.ljust(CHUNK_BYTES_MAX - 1, b"x") + b"\n"
    assert put(file_gateway, job, 0, largest).json() == {"next": 1}
    refused(put(file_gateway, job, 1, largest + b"\n"), 413, str(CHUNK_BYTES_MAX))
    assert put(file_gateway, job, 1, b"still the same\n").json() == {"next": 2}


def test_a_chunk_of_two_gigabytes_is_not_read(file_gateway: GatewayProcess) -> None:
    job = create(file_gateway)
    head = f"PUT {JOBS}/{job}/itineraries?message=0 HTTP/1.1\r\nhost: 127.0.0.1:{file_gateway.port}\r\n"
    with closing(socket.create_connection(("127.0.0.1", file_gateway.port), timeout=20 * PATIENCE)) as client:
        client.sendall(f"{head}content-length: {2**21}\r\n\r\n".encode())
        answer = read_all(client)
    assert answer.startswith(b"HTTP/1.1 413 ")
    with closing(socket.create_connection(("127.0.0.1", file_gateway.port), timeout=20 * PATIENCE)) as client:
        client.sendall(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
        piece = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
        sent = 0
        try:
            while sent < 2**15:  # two gigabytes, if they were taken
                client.sendall(piece)
                sent += 1
        except OSError:
            pass
        assert sent < 2**10
    assert put(file_gateway, job, 0, ITINERARIES).json() == {"next": 1}


def test_a_connection_goes_on_after_a_body_that_was_not_wanted(file_gateway: GatewayProcess) -> None:
    """Repeated messages, gaps and what a job takes no more are answered before their bodies are read."""
    job = create(file_gateway)
    large = b"x" * (CHUNK_BYTES_MAX - 1) + b"\n"
    put(file_gateway, job, 0, ITINERARIES)
    with closing(http.client.HTTPConnection("127.0.0.1", file_gateway.port, timeout=20 * PATIENCE)) as client:
        client.connect()
        address = client.sock.getsockname()
        for message, expected in ((1, 200), (0, 200), (1, 200), (9, 409), (2, 200)):
            client.request("PUT", f"{JOBS}/{job}/itineraries?message={message}", large)
            answer = client.getresponse()
            answer.read()
            assert answer.status == expected
            assert client.sock is not None
            assert client.sock.getsockname() == address
    assert status(file_gateway, job)["files"]["itineraries"]["next"] == 3


def read_all(client: socket.socket) -> bytes:
    answer = b""
    while piece := client.recv(65_536):
        answer += piece
    return answer


def test_a_client_that_goes_away_in_the_middle_of_a_chunk(file_gateway: GatewayProcess) -> None:
    job = create(file_gateway)
    head = f"PUT {JOBS}/{job}/itineraries?message=0 HTTP/1.1\r\nhost: 127.0.0.1:{file_gateway.port}\r\n"
    with closing(socket.create_connection(("127.0.0.1", file_gateway.port))) as client:
        client.sendall(f"{head}content-length: 1000\r\n\r\n".encode() + ITINERARIES)
    assert put(file_gateway, job, 0, ITINERARIES).json() == {"next": 1}
    assert len(records(file_gateway, "flights.itineraries", job)) == 1


def test_two_who_send_the_same_file_at_once(file_gateway: GatewayProcess) -> None:
    job = create(file_gateway)
    put(file_gateway, job, 0, ITINERARIES)

    def upload(_: int) -> None:
        with httpx.Client(base_url=file_gateway.url, timeout=60, trust_env=False) as client:
            for message in range(1, 50):
                answer = client.put(f"{JOBS}/{job}/itineraries?message={message}", content=ROW)
                assert answer.status_code == 200, answer.text

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(upload, range(4)))
    numbers = [headers_of(each)["message"] for each in records(file_gateway, "flights.itineraries", job)]
    assert numbers == [str(number) for number in range(50)]


# What the service tells


def test_next_is_what_the_service_or_this_gateway_knows_whichever_is_more(
    file_gateway: GatewayProcess, service: FakeFlights
) -> None:
    job = create(file_gateway)
    put(file_gateway, job, 0, ITINERARIES)
    put(file_gateway, job, 1)
    behind = {
        "itineraries": FileProgress(next=1, received=1, bytes=len(ITINERARIES)),
        "airports": FileProgress(),
    }
    service.tell(told(job, files=behind))
    known = wait_status(file_gateway, job, updated_ms=2)
    assert (known["files"]["itineraries"]["next"], known["files"]["itineraries"]["received"]) == (2, 1)
    assert "ledger" not in known
    ahead = {"itineraries": FileProgress(next=9, received=9, bytes=10_000), "airports": FileProgress()}
    service.tell(replace(told(job, files=ahead), updated_ms=3))
    wait_status(file_gateway, job, updated_ms=3)
    assert put(file_gateway, job, 5).json() == {"next": 9, "duplicate": True}
    assert put(file_gateway, job, 9).json() == {"next": 10}
    complete = {"itineraries": FileProgress(10, 10, 10, 10_001), "airports": FileProgress(1, 1, 1, 5)}
    service.tell(replace(told(job, files=complete, state=State.COMPUTING), updated_ms=4))
    wait_status(file_gateway, job, state="computing")
    refused(put(file_gateway, job, 10), 409, "ended after 10")
    assert end(file_gateway, job, 10).json()["duplicate"]


def test_a_failed_job_takes_nothing(file_gateway: GatewayProcess, service: FakeFlights) -> None:
    job = create(file_gateway)
    service.tell(told(job, state=State.FAILED, reason="two headers"))
    wait_status(file_gateway, job, state="failed")
    for answer in (put(file_gateway, job, 0, ITINERARIES), end(file_gateway, job, 1)):
        assert refused(answer, 409, "two headers")["state"] == "failed"


def test_what_is_not_committed_is_not_known(file_gateway: GatewayProcess, service: FakeFlights) -> None:
    job, other = create(file_gateway), create(file_gateway)
    service.begin(told(job, state=State.FAILED, reason="never said"))
    assert status(file_gateway, job)["state"] == "receiving"
    service.abort()
    service.tell(told(other, state=State.COMPUTING))
    wait_status(file_gateway, other, state="computing")
    assert status(file_gateway, job)["state"] == "receiving"


# Results


def test_results_that_are_complete(file_gateway: GatewayProcess, service: FakeFlights) -> None:
    job, other = create(file_gateway), create(file_gateway)
    service.tell(told(job, queries=partial(2)), rows={"q1": Q1[:1], "q2": [b"a1,SFO,LAX,1666"]})
    service.tell(told(other), rows={"q1": [b"x,AAA,BBB,1,C||D||E"]})
    ends = [ResultEnd("q1", 2), ResultEnd("q2", 1), ResultEnd("q3", 0), ResultEnd("q4", 1)]
    rows = {"q1": Q1[1:], "q4": [b"ATL,BOS,350.95223076923065,788.61"]}
    service.tell(told(job, state=State.COMPLETE), rows=rows, ends=ends)
    for follow in ("1", "0"):
        answer = results(file_gateway, job, "q1", follow=follow)
        assert [json.loads(line) for line in answer.text.splitlines()] == Q1_OBJECTS
        assert answer.headers["content-type"] == "application/x-ndjson"
        assert results(file_gateway, job, "q1", format="csv", follow=follow).text == Q1_CSV
    assert json.loads(results(file_gateway, job, "q2").text)["totalTravelDistance"] == 1666
    assert results(file_gateway, job, "q3").text == ""
    assert results(file_gateway, job, "q3", format="csv").text.splitlines()[0].startswith("legId,")
    assert json.loads(results(file_gateway, job, "q4").text) == {
        "startingAirport": "ATL", "destinationAirport": "BOS", "avgFare": 350.95223076923065,
        "maxFare": 788.61,
    }  # fmt: skip


def results(gateway: GatewayProcess, job: str, query: str, **parameters: str) -> httpx.Response:
    answer = gateway.get(f"{JOBS}/{job}/results/{query}", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer


def partial(rows: int) -> dict[str, QueryProgress]:
    return {"q1": QueryProgress("partial", rows), **{q: QueryProgress() for q in ("q2", "q3", "q4")}}


def test_results_as_they_come(file_gateway: GatewayProcess, service: FakeFlights) -> None:
    job = create(file_gateway)
    assert results(file_gateway, job, "q1", follow="0").text == ""
    seen: list[str] = []

    def follow() -> None:
        with httpx.stream(
            "GET", f"{file_gateway.url}{JOBS}/{job}/results/q1", timeout=60, trust_env=False
        ) as answer:
            seen.extend(answer.iter_lines())

    reader = threading.Thread(target=follow)
    reader.start()
    service.tell(told(job), rows={"q1": Q1[:1]})
    wait_until(lambda: len(seen) == 1, "the first row")
    service.begin(told(job), rows={"q1": Q1[1:]})
    assert [json.loads(line) for line in results(file_gateway, job, "q1", follow="0").text.splitlines()] == (
        Q1_OBJECTS[:1]
    )
    service.commit()
    wait_until(lambda: len(seen) == 2, "the second row")
    assert reader.is_alive()
    service.tell(told(job, state=State.COMPLETE), ends=[ResultEnd("q1", 2)])
    reader.join(20 * PATIENCE)
    assert not reader.is_alive()
    assert [json.loads(line) for line in seen] == Q1_OBJECTS


def test_results_of_a_job_that_fails(file_gateway: GatewayProcess, service: FakeFlights) -> None:
    job = create(file_gateway)
    ends = [ResultEnd("q1", None, "row 7 is none")]
    service.tell(told(job, state=State.FAILED, reason="row 7 is none"), rows={"q1": Q1[:1]}, ends=ends)
    wait_status(file_gateway, job, state="failed")
    lines = results(file_gateway, job, "q1").text.splitlines()
    assert json.loads(lines[0]) == Q1_OBJECTS[0]
    assert json.loads(lines[1]) == {"status": "failure", "message": "row 7 is none"}
    with pytest.raises(httpx.RemoteProtocolError):
        results(file_gateway, job, "q1", format="csv")


def test_results_of_a_job_that_is_deleted_meanwhile(
    file_gateway: GatewayProcess, service: FakeFlights
) -> None:
    job = create(file_gateway)
    with (
        httpx.stream(
            "GET", f"{file_gateway.url}{JOBS}/{job}/results/q1", timeout=60, trust_env=False
        ) as answer,
    ):
        assert file_gateway.request("DELETE", f"{JOBS}/{job}").status_code == 200
        assert json.loads(answer.read())["message"] == "the job was deleted"


def test_rows_that_are_not_kept_any_more_are_missed(
    file_gateway: GatewayProcess, service: FakeFlights
) -> None:
    job = create(file_gateway)
    complete = told(job, state=State.COMPLETE)
    service.tell(complete, rows={"q1": Q1[:1]}, ends=[ResultEnd("q1", 5)])
    wait_status(file_gateway, job, state="complete")
    assert (
        "of 5 rows 1 are there"
        in json.loads(results(file_gateway, job, "q1").text.splitlines()[-1])["message"]
    )
    assert "not kept" in json.loads(results(file_gateway, job, "q2").text)["message"]


def test_questions_about_results_that_make_no_sense(file_gateway: GatewayProcess) -> None:
    job = create(file_gateway)
    refused(file_gateway.get(f"{JOBS}/{job}/results/q1", params={"format": "xml"}), 400, "ndjson, csv")
    refused(file_gateway.get(f"{JOBS}/{job}/results/q1", params={"follow": "2"}), 400, "follow")


def test_a_reader_that_goes_away_leaves_nothing(file_gateway: GatewayProcess) -> None:
    job = create(file_gateway)
    with httpx.stream("GET", f"{file_gateway.url}{JOBS}/{job}/results/q1", timeout=60, trust_env=False):
        wait_until(lambda: metric(file_gateway, 'penstock_gateway_streams{kind="flights"}') == 1, "a stream")
    wait_until(lambda: metric(file_gateway, 'penstock_gateway_streams{kind="flights"}') == 0, "no stream")


# Quotas, and who sends too fast


def test_quotas_of_the_service(
    file_broker: BrokerProcess, service: FakeFlights, file_gateway: GatewayProcess, tmp_path: Path
) -> None:
    limits = ("--limit", "flights_job_behind_bytes_max=400", "--limit", "flights_behind_bytes_max=700")
    with GatewayProcess(tmp_path, file_broker.bootstrap, *limits) as small:
        job, second, third = create(small), create(small), create(small)
        body = ITINERARIES + b"x" * (299 - len(ITINERARIES)) + b"\n"
        assert put(small, job, 0, body).status_code == 200
        answer = put(small, job, 1, body)
        refused(answer, 429, "300 bytes of this job")
        assert answer.headers["retry-after"] == "1"
        assert put(small, second, 0, body).status_code == 200
        refused(put(small, third, 0, body), 429, "600 bytes of all jobs")
        service.tell(
            told(job, files={"itineraries": FileProgress(1, 1, None, 300), "airports": FileProgress()})
        )
        wait_until(lambda: put(small, job, 1, b"x\n").status_code == 200, "room for one more")
        service.beat(limits={"job_bytes": 310, "total_bytes": 10**6, "jobs": 10**6})

        def one_more() -> httpx.Response:
            wanted = status(small, job)["files"]["itineraries"]["next"]
            return put(small, job, wanted, b"y" * 50 + b"\n")

        wait_until(lambda: one_more().status_code == 413, "the quota of a job")
        service.beat(limits={"job_bytes": 10**6, "total_bytes": 610, "jobs": 1})
        wait_until(lambda: small.post(JOBS, {}).status_code == 429, "the quota of jobs")
        refused(put(small, third, 0, ITINERARIES), 429, "610 bytes")
    service.beat()


# Gateways that end, and several of them


def test_a_gateway_that_has_forgotten_what_it_wrote(
    file_broker: BrokerProcess, service: FakeFlights, file_gateway: GatewayProcess, tmp_path: Path
) -> None:
    with GatewayProcess(tmp_path, file_broker.bootstrap) as second:
        job = create(file_gateway)
        assert put(second, job, 0, ITINERARIES).json() == {"next": 1}  # that is known of on both
        assert put(second, job, 1).json() == {"next": 2}
        assert refused(put(file_gateway, job, 2), 409)["next"] == 0
        second.restart(clean=False)
        assert refused(put(second, job, 2), 409)["next"] == 0
        files = {"itineraries": FileProgress(1, 1, None, len(ITINERARIES)), "airports": FileProgress()}
        service.tell(told(job, files=files))
        wait_until(lambda: put(second, job, 2).json()["next"] == 1, "word from the service")
        assert put(second, job, 0, ITINERARIES).json() == {"next": 1, "duplicate": True}
        assert put(second, job, 1).json() == {"next": 2}


def test_brokers_that_are_away(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--no-http") as broker:
        limit = ("--limit", "kafka_seconds_max=1.5")
        with GatewayProcess(tmp_path, broker.bootstrap, *limit) as gateway:
            job = create(gateway)
            put(gateway, job, 0, ITINERARIES)
            broker.kill()
            answer = put(gateway, job, 1)
            refused(answer, 503)
            assert answer.headers["retry-after"] == "1"
            assert put(gateway, job, 0, ITINERARIES).json() == {"next": 1, "duplicate": True}
            refused(gateway.post(JOBS, {}), 503)
            assert status(gateway, job)["files"]["itineraries"]["next"] == 1
            broker.start()
            wait_until(lambda: put(gateway, job, 1).status_code == 200, "brokers that are back", timeout_s=30)
            assert status(gateway, job)["files"]["itineraries"]["next"] == 2


# Heartbeats


def test_heartbeats_in_the_state_of_the_cluster(
    file_broker: BrokerProcess, file_gateway: GatewayProcess, service: FakeFlights
) -> None:
    service.beat(state="starting", pid=4242, host="elsewhere")

    def node() -> dict[str, Any]:
        told = file_gateway.get("/v1/cluster").json()
        return next((each for each in told.get("nodes", []) if each["id"] == "flights"), {})

    found = wait_until(lambda: node() if node().get("pid") == 4242 else None, "a node by its heartbeat")
    assert found is not None
    assert found["heartbeat_ms"] > 0
    assert {**found, "heartbeat_ms": 0} == {
        "id": "flights", "pid": 4242, "state": "starting", "roles": ["flights"], "host": "elsewhere",
        "heartbeat_ms": 0,
    }  # fmt: skip
    assert file_gateway.get(JOBS).json()["service"] == "starting"
    refused(file_gateway.post("/v1/cluster/kill", {"target": "flights", "signal": "CONT"}), 503, "elsewhere")
    wait_until(lambda: node()["state"] == "late", "a heartbeat that is late")
    service.beat()
    wait_until(lambda: node()["state"] == "running", "another heartbeat")


def test_a_service_that_went_long_ago_is_down(
    file_broker: BrokerProcess, service: FakeFlights, tmp_path: Path
) -> None:
    service.beat(age_s=60)
    with GatewayProcess(tmp_path, file_broker.bootstrap) as second:
        (node,) = second.get("/v1/cluster").json()["nodes"]
        assert node["state"] == "down"


@pytest.mark.parametrize("by_command", [False, True], ids=["by request", "by command"])
def test_a_service_on_this_machine_can_be_killed(
    file_gateway: GatewayProcess, service: FakeFlights, by_command: bool
) -> None:
    script = "import signal; signal.pause()"
    with subprocess.Popen([sys.executable, "-c", script, "penstock", "flights"]) as process:
        try:
            service.beat(pid=process.pid)
            wait_until(lambda: node_pid(file_gateway) == process.pid, "its heartbeat")
            if by_command:
                done = penstock("cluster", "kill", "flights", "--http", file_gateway.url)
                assert done.out == f"sent SIGKILL to the Flights service, process {process.pid}\n"
            else:
                answer = file_gateway.post("/v1/cluster/kill", {"target": "flights"})
                assert answer.status_code == 200, answer.text
            assert process.wait(20 * PATIENCE) == -signal.SIGKILL
        finally:
            process.kill()
    again = file_gateway.post("/v1/cluster/kill", {"target": "flights"})
    refused(again, 409)


def test_a_pid_that_is_somebody_else_s_now(file_gateway: GatewayProcess, service: FakeFlights) -> None:
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as process:
        try:
            service.beat(pid=process.pid)
            wait_until(lambda: node_pid(file_gateway) == process.pid, "its heartbeat")
            refused(
                file_gateway.post("/v1/cluster/kill", {"target": "flights"}),
                409,
                "is not the Flights service",
            )
            done = penstock("cluster", "kill", "flights", "--http", file_gateway.url)
            assert "is not the Flights service" in done.complaint
            assert process.poll() is None
        finally:
            process.kill()


def node_pid(gateway: GatewayProcess) -> int | None:
    nodes = gateway.get("/v1/cluster").json().get("nodes", [])
    return next((each["pid"] for each in nodes if each["id"] == "flights"), None)


# Tokens


def test_who_may_do_what(file_broker: BrokerProcess, service: FakeFlights, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"read {'r' * 16}\nwrite {'w' * 16}\n")
    reading, writing = ({"authorization": f"Bearer {letter * 16}"} for letter in "rw")
    with GatewayProcess(tmp_path, file_broker.bootstrap, "--http-token-file", str(tokens)) as guarded:
        assert guarded.post(JOBS, {}).status_code == 401
        assert guarded.post(JOBS, {}, headers=reading).status_code == 403
        job = guarded.post(JOBS, {}, headers=writing).json()["job"]
        path = f"{JOBS}/{job}"
        assert guarded.get(path).status_code == 401
        assert guarded.get(path, headers=reading).status_code == 200
        chunk = f"{path}/itineraries?message=0"
        assert guarded.request("PUT", chunk, content=ITINERARIES).status_code == 401
        assert guarded.request("PUT", chunk, content=ITINERARIES, headers=reading).status_code == 403
        assert guarded.request("PUT", chunk, content=ITINERARIES, headers=writing).status_code == 200
        assert guarded.request("DELETE", path, headers=reading).status_code == 403
        assert guarded.request("DELETE", path, headers=writing).status_code == 200
