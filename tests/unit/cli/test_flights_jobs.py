"""`penstock flights submit|jobs|status|results|delete` and a gateway in memory: what is printed and written,
and how they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.app import run
from penstock.flights.jobs import State
from tests.support.managed_process import SOURCE
from tests.support.ports import free_port
from tests.support.wait import wait_until
from tests.unit.flights.fake_gateway import FakeFlights, failure
from tests.unit.flights.tables import Tables, write_tables

JOB = str(uuid.UUID(int=7))
RESULTS = {
    "q1": [f"leg{number},AAA,BBB,{number}.5,C||D||E" for number in range(12)],
    "q2": ["far,AAA,BBB,9000", "föhn,AAA,BBB,9001"],
    "q3": ["fast,AAA,BBB,PT5H,C||D||E"],
    "q4": [],
}


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeFlights]:
    with FakeFlights() as fake:
        fake.prepared.results = RESULTS
        monkeypatch.setenv("PENSTOCK_HTTP", fake.url)
        yield fake


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return write_tables(tmp_path, 20_000)


def submit(tables: Tables, *options: str) -> int:
    return run(["flights", "submit", *tables.options(), *options])


def complaint(capsys: pytest.CaptureFixture[str]) -> str:
    """The last line, after what was told on the way."""
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("penstock: ")
    return line.removeprefix("penstock: ")


def test_submit_prints_results_and_writes_what_run_writes(
    gateway: FakeFlights, tables: Tables, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "results"
    assert submit(tables, "--out", str(out)) == 0
    job, found = gateway.only()
    printed = capsys.readouterr()
    assert printed.err.splitlines()[0] == f"job {job}"
    assert "uploaded 0.9 of 0.9 MB" in printed.err
    assert "q1: three or more stopovers, the first rows" in printed.out
    assert "leg4" in printed.out
    assert "leg5" not in printed.out
    assert "q1: 12 rows" in printed.out
    assert "q2: more than four times the direct distance, 2 rows" in printed.out
    assert "q4: fares above the general average, 0 rows" in printed.out
    assert "7 rows read, 1 rejected\n  empty legId: 1\n  left out of q2, unknown airport: 2" in printed.out
    assert printed.out.endswith(f"average fare 12.35\nresults in {out}, 1.2 s\n")
    assert sorted(path.name for path in out.iterdir()) == [*(f"q{n}.csv" for n in "1234"), "summary.json"]
    for query, lines in RESULTS.items():
        assert (out / f"{query}.csv").read_text().splitlines()[1:] == lines
    assert (out / "q4.csv").read_text() == "startingAirport,destinationAirport,avgFare,maxFare\n"
    assert json.loads((out / "summary.json").read_text())["queries"] == {"q1": 12, "q2": 2, "q3": 1, "q4": 0}
    assert found.files["itineraries"].content() == tables.itineraries.read_bytes()


def test_submit_of_a_job_that_is_complete_only_brings_the_results(
    gateway: FakeFlights, tables: Tables, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert submit(tables, "--job", JOB, "--no-wait") == 0
    assert capsys.readouterr().out == f"{JOB}\n"
    gateway.requests.clear()
    out = tmp_path / "results"
    assert submit(tables, "--job", JOB.upper(), "--json", "--out", str(out)) == 0
    assert json.loads(capsys.readouterr().out)["rows_read"] == 7
    assert {kind for kind, _, _ in gateway.requests} == {"GET"}
    assert (out / "q3.csv").read_text().count("\n") == 2


def test_submit_survives_a_bad_day(
    gateway: FakeFlights, tables: Tables, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway.faults.extend(["lose", "drop", None, failure(503, "no leader"), "forget", "lose", "forget"])
    gateway.cuts.extend([0, 3, 1, 2, 7])
    assert submit(tables, "--out", str(tmp_path / "results")) == 0
    for query, lines in RESULTS.items():
        assert (tmp_path / "results" / f"{query}.csv").read_text().splitlines()[1:] == lines
    _, found = gateway.only()
    assert found.files["itineraries"].content() == tables.itineraries.read_bytes()


def test_files_that_cannot_be_used_make_no_job(
    gateway: FakeFlights, tables: Tables, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [str(tables.itineraries), str(tables.airports)]
    for itineraries, airports, says in (
        (paths[0], "/no/such", "/no/such: No such file or directory"),
        (paths[1], paths[1], "no ',' in the header line"),
        (paths[0], paths[0], "no ';' in the header line"),
    ):
        assert run(["flights", "submit", "--itineraries", itineraries, "--airports", airports]) == 1
        printed = capsys.readouterr().err
        assert says in printed
        assert printed.count("\n") == 1
    assert submit(tables, "--out", str(tables.airports.parent)) == 1
    assert "holds 'airports.csv', which is no earlier result" in complaint(capsys)
    assert gateway.requests == []


def test_a_job_that_fails_leaves_nothing_behind(
    gateway: FakeFlights, tables: Tables, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway.prepared.holds = True
    out = tmp_path / "results"

    def fail() -> None:
        wait_until(lambda: gateway.jobs and gateway.only()[1].files["itineraries"].end, "an upload")
        gateway.change(gateway.only()[0], state=State.FAILED, reason="the file is odd")

    thread = threading.Thread(target=fail)
    thread.start()
    assert submit(tables, "--out", str(out)) == 1
    thread.join()
    job = gateway.only()[0]
    assert complaint(capsys) == f"job {job} failed: the file is odd"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["airports.csv", "itineraries.csv"]
    assert submit(tables, "--job", job) == 1
    assert complaint(capsys) == f"job {job} failed: the file is odd"


def test_a_gateway_that_stays_away(tables: Tables, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert submit(tables, "--http", url, "--timeout", "0.2", "--job", JOB) == 1
    again = (
        f"penstock flights submit --job {JOB} --itineraries {tables.itineraries} --airports {tables.airports}"
    )
    assert complaint(capsys) == (
        f"job {JOB}: gave up after 0.2 s: Connection refused; to go on: {again} --http {url}"
    )


def test_ctrl_c_says_how_to_go_on(gateway: FakeFlights, tables: Tables, tmp_path: Path) -> None:
    gateway.prepared.holds = True
    out = tmp_path / "results"
    command = [sys.executable, "-m", "penstock", "flights", "submit", *tables.options(), "--out", str(out)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
    )
    wait_until(lambda: gateway.jobs and gateway.only()[1].files["itineraries"].end, "an upload", timeout_s=30)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"penstock: interrupted; to go on: penstock flights submit --job {gateway.only()[0]} " in err
    assert "Traceback" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["airports.csv", "itineraries.csv"]


def test_jobs_and_status(gateway: FakeFlights, tables: Tables, capsys: pytest.CaptureFixture[str]) -> None:
    assert submit(tables, "--job", JOB, "--no-wait") == 0
    capsys.readouterr()
    assert run(["flights", "jobs"]) == 0
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split() == ["JOB", "STATE", "CREATED", "ROWS", "READ", "Q1", "Q2", "Q3", "Q4", "REASON"]
    assert line.split() == [JOB, "complete", "2023-11-14T22:13:20+00:00", "7", "12", "2", "1", "0", "-"]
    assert run(["flights", "jobs", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["job"], told["state"], told["queries"]["q1"]) == (
        JOB,
        "complete",
        {"state": "complete", "rows": 12},
    )
    assert run(["flights", "status", JOB]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"job {JOB}: complete\n")
    size = tables.itineraries.stat().st_size
    assert f"itineraries     2         2  {size}           0\n" in printed
    assert "the service is running" in printed
    assert run(["flights", "status", JOB, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"]["itineraries"]["messages"] == 2


def test_results(gateway: FakeFlights, tables: Tables, capfd: pytest.CaptureFixture[str]) -> None:
    assert submit(tables, "--job", JOB, "--no-wait") == 0
    capfd.readouterr()
    gateway.cuts.extend([1])
    assert run(["flights", "results", JOB, "q2"]) == 0
    heading = "legId,startingAirport,destinationAirport,totalTravelDistance"
    assert capfd.readouterr().out.splitlines() == [heading, *RESULTS["q2"]]
    assert run(["flights", "results", JOB, "q1", "--format", "ndjson", "--no-follow"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [json.loads(line)["legId"] for line in lines] == [f"leg{number}" for number in range(12)]


def test_delete(gateway: FakeFlights, tables: Tables, capsys: pytest.CaptureFixture[str]) -> None:
    assert submit(tables, "--job", JOB, "--no-wait") == 0
    assert run(["flights", "delete", JOB]) == 0
    assert f"deleted {JOB}" in capsys.readouterr().out
    for command in (["status", JOB], ["submit", *tables.options(), "--job", JOB]):
        assert run(["flights", *command]) == 1
        assert complaint(capsys) == f"job {JOB}: the job {JOB} was deleted"


def test_a_job_that_is_not_there(gateway: FakeFlights, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["status", JOB], ["results", JOB, "q1"], ["delete", JOB]):
        assert run(["flights", *command]) == 1
        assert f"there is no job {JOB}" in complaint(capsys)


def test_a_token_that_is_missing(
    gateway: FakeFlights, tables: Tables, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.faults.append(failure(401, "a token is needed"))
    assert submit(tables) == 1
    assert complaint(capsys).endswith("cannot be created: a token is needed: set PENSTOCK_TOKEN")
    monkeypatch.setenv("PENSTOCK_TOKEN", "secret")
    assert run(["flights", "jobs"]) == 0
    assert gateway.requests[-1][2]["Authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    "arguments",
    [
        ["submit"],
        ["submit", "--itineraries", "a"],
        ["submit", "--itineraries", "a", "--airports", "b", "--job", "x"],
        ["submit", "--itineraries", "a", "--airports", "b", "--timeout", "0"],
        ["submit", "--itineraries", "a", "--airports", "b", "--no-wait", "--out", "c"],
        ["submit", "--itineraries", "a", "--airports", "b", "--no-wait", "--json"],
        ["status"],
        ["status", "x"],
        ["results", JOB],
        ["results", JOB, "q5"],
        ["results", JOB, "q1", "--format", "xml"],
        ["delete"],
        ["jobs", "more"],
    ],
)
def test_wrong_usage(arguments: list[str]) -> None:
    assert run(["flights", *arguments]) == 2


def test_a_wrong_address_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["flights", "jobs", "--http", "localhost"]) == 1
    assert complaint(capsys) == "--http: 'localhost' is not an address of the form http://HOST:PORT"
