"""`penstock flights submit` and its kin with a real broker and a real gateway; gateway and client are killed
in the middle. The service is played by the test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.flights import FlightsClient, JobDeletedError, JobFailedError, State
from penstock.flights.chunks import CHUNK_BYTES_MAX, cut
from penstock.flights.jobs import Job
from penstock.flights.records import ResultEnd
from penstock.pipelines.flights.generate import generate
from tests.support.broker import BrokerProcess
from tests.support.commands import Finished, penstock
from tests.support.fake_flights import FakeFlights, results_partition
from tests.support.gateway import GatewayProcess
from tests.support.managed_process import SOURCE
from tests.support.played_flights import PlayedFlights, Received
from tests.support.wait import PATIENCE, wait_until

ROWS = 45_000
WAITING_CHUNKS = 8
"""So many may wait for the service. Then the client has to."""
END_S_MAX = 90.0


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    generate(ROWS, str(folder), seed=3)
    return folder


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, "--storage", "memory", "--no-http") as process:
        yield process


@pytest.fixture
def gateway(broker: BrokerProcess, tmp_path: Path) -> Iterator[GatewayProcess]:
    limit = f"flights_job_behind_bytes_max={WAITING_CHUNKS * CHUNK_BYTES_MAX}"
    with GatewayProcess(tmp_path, broker.bootstrap, "--limit", limit) as process:
        yield process
        assert "Traceback" not in process.log


@pytest.fixture
def client(gateway: GatewayProcess) -> Iterator[FlightsClient]:
    with FlightsClient(gateway.url, timeout_s=60) as made:
        yield made


@pytest.fixture
def service(client: FlightsClient, broker: BrokerProcess) -> Iterator[PlayedFlights]:
    client.create()  # makes the topics
    with PlayedFlights(broker.bootstrap) as played:
        yield played


class Submit:
    """The command, while it runs."""

    def __init__(self, gateway: GatewayProcess, tables: Path, job: str, *options: str) -> None:
        command = [sys.executable, "-m", "penstock", "flights", "submit", "--http", gateway.url]
        command += ["--itineraries", str(tables / "itineraries.csv")]
        command += ["--airports", str(tables / "airports.csv"), "--job", job, *options]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(SOURCE)},
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def end(self) -> Finished:
        out, err = self.process.communicate(timeout=END_S_MAX * PATIENCE)
        return Finished(self.process.returncode, out.decode(), err.decode())


def wait_for_messages(client: FlightsClient, job: str, number: int) -> None:
    def are_there() -> bool:
        known = {found.job: found.files["itineraries"].next for found in client.jobs()}
        return known.get(job, 0) >= number

    wait_until(are_there, f"{number} messages", timeout_s=30)


def check(received: Received, tables: Path, out: Path) -> None:
    for file in ("itineraries", "airports"):
        assert received.content(file) == (tables / f"{file}.csv").read_bytes()
    with (tables / "itineraries.csv").open("rb") as opened:
        count = len(list(cut(opened.read)))
    assert count > 3 * WAITING_CHUNKS
    lines = (out / "q1.csv").read_bytes().splitlines()[1:]
    assert lines == received.rows
    assert len(set(lines)) == len(lines) == count
    assert (out / "q3.csv").read_text().splitlines()[1:] == ["fast,AAA,BBB,PT5H,C||D||E"]
    assert json.loads((out / "summary.json").read_text())["queries"]["q1"] == count


def test_gateways_that_are_killed_or_stopped_change_nothing(
    gateway: GatewayProcess, client: FlightsClient, service: PlayedFlights, tables: Path, tmp_path: Path
) -> None:
    job, out = str(uuid.uuid4()), tmp_path / "results"
    submit = Submit(gateway, tables, job, "--out", str(out))
    wait_for_messages(client, job, WAITING_CHUNKS - 1)
    gateway.restart(clean=False)  # it has forgotten them, and the service does not know of them yet
    wait_for_messages(client, job, WAITING_CHUNKS - 1)
    service.go()
    wait_for_messages(client, job, WAITING_CHUNKS + 2)
    gateway.restart(clean=True)
    finished = submit.end()
    assert finished.code == 0, finished.err
    check(service.jobs[job], tables, out)
    assert service.jobs[job].duplicates >= WAITING_CHUNKS - 1
    assert "q1: three or more stopovers, the first rows" in finished.out
    assert "average fare 12.50" in finished.out


def test_a_client_that_is_killed_goes_on(
    gateway: GatewayProcess, client: FlightsClient, service: PlayedFlights, tables: Path, tmp_path: Path
) -> None:
    job, out = str(uuid.uuid4()), tmp_path / "results"
    submit = Submit(gateway, tables, job, "--out", str(out))
    wait_for_messages(client, job, WAITING_CHUNKS - 1)
    submit.kill()
    before = client.status(job).files["itineraries"].next
    submit = Submit(gateway, tables, job, "--out", str(out))
    service.go()
    finished = submit.end()
    assert finished.code == 0, finished.err
    check(service.jobs[job], tables, out)
    assert before >= WAITING_CHUNKS - 1
    assert service.jobs[job].duplicates == 0
    # Once more, and nothing is left to be done but to read.
    again = Submit(gateway, tables, job, "--out", str(tmp_path / "again"), "--json").end()
    assert json.loads("".join(again.lines))["average_fare"] == 12.5
    check(service.jobs[job], tables, tmp_path / "again")


def test_commands(
    gateway: GatewayProcess, client: FlightsClient, service: PlayedFlights, tables: Path, tmp_path: Path
) -> None:
    service.go()
    job = str(uuid.uuid4())
    assert Submit(gateway, tables, job, "--no-wait").end().lines == [job]
    assert client.wait(job).state is State.COMPLETE
    where = ["--http", gateway.url]
    assert client.status(job).fastest_of == "many-stopovers"
    files = ["--itineraries", str(tables / "itineraries.csv"), "--airports", str(tables / "airports.csv")]
    upload = ["flights", "submit", *files, "--no-wait", *where]
    requests = {"limit": 1000, "offset": 0}
    assert "fastest_of" not in gateway.get("/v1/topics/flights.requests/messages", params=requests).text
    every = penstock(*upload, "--fastest-of", "all").lines[-1]
    assert "fastest_of" in gateway.get("/v1/topics/flights.requests/messages", params=requests).text
    other = penstock(*upload, "--job", job, "--fastest-of", "all")
    assert other.code == 1
    assert "the fastest of many-stopovers: take another id" in other.err
    client.delete(every)
    (line,) = [line for line in penstock("flights", "jobs", *where).lines if job in line]
    assert line.split()[1] == "complete"
    told = json.loads("".join(penstock("flights", "status", job, "--json", *where).lines))
    assert told["queries"]["q3"] == {"state": "complete", "rows": 1}
    assert penstock("flights", "status", job, *where).lines[0] == f"job {job}: complete"
    assert penstock("flights", "results", job, "q3", *where).lines[1:] == ["fast,AAA,BBB,PT5H,C||D||E"]
    rows = penstock("flights", "results", job, "q1", "--format", "ndjson", "--no-follow", *where).lines
    assert [json.loads(row)["legId"].encode() for row in rows] == [
        row.split(b",")[0] for row in service.jobs[job].rows
    ]
    assert penstock("flights", "delete", job, *where).lines == [f"deleted {job}"]
    assert "was deleted" in penstock("flights", "status", job, *where).complaint
    with pytest.raises(JobDeletedError):
        client.status(job)


def test_a_job_that_fails(
    gateway: GatewayProcess, client: FlightsClient, broker: BrokerProcess, tables: Path, tmp_path: Path
) -> None:
    job = client.create()
    fake = FakeFlights(broker.bootstrap)
    submit = Submit(gateway, tables, job, "--out", str(tmp_path / "results"))
    wait_for_messages(client, job, WAITING_CHUNKS - 1)
    failed = Job(job, State.FAILED, "message 3 has no end", 1, 2, results_partition=results_partition(job))
    ends = [ResultEnd(query, None, "message 3 has no end") for query in failed.queries]
    fake.tell(failed, rows={"q2": [b"a,AAA,BBB,1"]}, ends=ends)
    finished = submit.end()
    assert finished.code == 1
    assert finished.err.splitlines()[-1] == f"penstock: job {job} failed: message 3 has no end"
    assert not (tmp_path / "results").exists()
    for form in ("csv", "ndjson"):
        result = penstock("flights", "results", job, "q2", "--format", form, "--http", gateway.url)
        assert result.complaint == f"job {job} failed: message 3 has no end"
        assert result.out.count("\n") == (2 if form == "csv" else 1)
    with pytest.raises(JobFailedError):
        list(client.results(job, "q4"))


def test_interrupted(
    gateway: GatewayProcess, client: FlightsClient, service: PlayedFlights, tables: Path, tmp_path: Path
) -> None:
    job = str(uuid.uuid4())
    submit = Submit(gateway, tables, job, "--out", str(tmp_path / "results"))
    wait_for_messages(client, job, WAITING_CHUNKS - 1)
    submit.process.send_signal(signal.SIGTERM)
    finished = submit.end()
    assert finished.code == 1
    assert f"interrupted; to go on: penstock flights submit --job {job}" in finished.err
    assert not [path.name for path in tmp_path.iterdir() if "results" in path.name]
