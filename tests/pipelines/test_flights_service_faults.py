"""The Flights service on a cluster of three brokers: rows come while data arrives, no bad job is in another
one's way, and with everybody killed with -9 at random every result is exact, each row there once.

All tests share one cluster and one `penstock flights serve`. What the plain oracle of the batch job says of a
table is compared with what clients get, and with what a reader of committed data finds on `flights.results`.

PENSTOCK_FLIGHTS_KILLS is how many processes are killed, PENSTOCK_FLIGHTS_SEED chooses whom and when.
"""

from __future__ import annotations

import os
import shutil
import struct
import uuid
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from penstock.flights.chunks import CHUNK_BYTES_MAX
from penstock.flights.jobs import State
from penstock.flights.records import Request, chunk_headers, end_headers, request_value
from penstock.flights.topics import FILE_TOPICS, ITINERARIES, JOBS, PARTITIONS, REQUESTS
from penstock.pipelines.flights.generate import AIRPORTS_HEADER, HEADER
from tests.support import flights_oracle as oracle
from tests.support import processes
from tests.support.commands import penstock
from tests.support.flights_jobs import (
    Table,
    Upload,
    check_topic,
    committed,
    make_table,
    send,
    submit,
    table_of,
    uploads_of,
    wait_state,
    written_results,
)
from tests.support.flights_pack import BurstClient, Client, Pack
from tests.support.flights_service import FlightsService
from tests.support.flights_told import SlowUpload, Told
from tests.support.supervised import SupervisedCluster
from tests.support.topics import fill
from tests.support.wait import wait_until

KILLS = int(os.environ.get("PENSTOCK_FLIGHTS_KILLS", "5"))
SEED = os.environ.get("PENSTOCK_FLIGHTS_SEED", "1")
CLIENTS = min(8, 2 + KILLS // 5)
ROWS = 1_000
"""Of the smallest table; each is larger than the one before."""
WORKER_KILLS = max(2, KILLS // 4)
ANSWER_S_MAX = 180.0
CLOSE_STEP = 0.0001
"""Degrees between airports so near to each other that single precision cannot tell how near."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedCluster]:
    running = SupervisedCluster(tmp_path_factory.mktemp("cluster"), brokers=3, with_gateway=True)
    with running:
        yield running


@pytest.fixture(scope="module")
def service(cluster: SupervisedCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlightsService]:
    with FlightsService(tmp_path_factory.mktemp("service"), cluster.bootstrap) as running:
        yield running


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return make_table(tmp_path_factory.mktemp("table"), ROWS, seed=77)


@pytest.fixture
def job() -> str:
    return str(uuid.uuid4())


def check_answers(cluster: SupervisedCluster, tables: dict[str, Table], folder: Path) -> None:
    """All are sent at once, and each has its own results."""
    for job, table in tables.items():
        send(cluster.bootstrap, job, uploads_of(table.files))
    for job in tables:
        told = wait_state(cluster.http, job, "complete", "failed")
        assert told["state"] == "complete", told
    check_topic(cluster.bootstrap, cluster.http, tables, folder)


def write_table(folder: Path, rows: list[dict[str, str]], airports: dict[str, tuple[float, float]]) -> Table:
    """Of rows that have only some of the columns."""
    names = HEADER.rstrip("\n").split(",")
    lines = [",".join(row.get(name, "") for name in names) + "\n" for row in rows]
    (folder / "itineraries.csv").write_text(HEADER + "".join(lines))
    width = AIRPORTS_HEADER.count(";") + 1
    places = [[code, *4 * [""], repr(lat), repr(lon)] for code, (lat, lon) in airports.items()]
    lines = [";".join(place + [""] * (width - len(place))) + "\n" for place in places]
    (folder / "airports.csv").write_text(f"{AIRPORTS_HEADER}\n" + "".join(lines))
    return table_of(folder)


# Known issues of the document that describes the service


def test_float64_distances(
    cluster: SupervisedCluster, service: FlightsService, job: str, tmp_path: Path
) -> None:
    """Between airports that are close, single precision is wrong in the first digits already."""
    airports = {f"A{index:02}": (-34.8222 + index * CLOSE_STEP, -58.5358) for index in range(20)}
    codes = list(airports)
    rows = [
        {
            "legId": f"leg-{number}",
            "startingAirport": start,
            "destinationAirport": end,
            "totalFare": "100.5",
            "travelDuration": "PT1H",
            # A long way round, whose length nobody has told.
            "segmentsArrivalAirportCode": "||".join([codes[-1], codes[0], codes[-1], end]),
        }
        for number, (start, end) in enumerate(pairwise(codes))
    ]
    table = write_table(tmp_path, rows, airports)
    assert len(table.answer.q2) == len(rows)
    wrong = [single_precision(airports[a], airports[b]) for a, b in pairwise(codes)]
    exact = [oracle.miles(airports[a], airports[b]) for a, b in pairwise(codes)]
    assert max(abs(one - other) / other for one, other in zip(wrong, exact, strict=True)) > 0.01
    check_answers(cluster, {job: table}, tmp_path)  # to 1e-9


def single_precision(start: tuple[float, float], end: tuple[float, float]) -> float:
    """The distance of positions that were kept as single precision numbers."""
    positions = struct.unpack("4f", struct.pack("4f", *start, *end))
    return oracle.miles((positions[0], positions[1]), (positions[2], positions[3]))


@pytest.mark.timeout(600)
def test_a_checkpoint_that_is_lost_in_the_middle_of_a_job(
    cluster: SupervisedCluster, service: FlightsService, table: Table, job: str, tmp_path: Path
) -> None:
    """Everything on the topics is read again, and counts once; what is no state of a job is passed over.

    It comes early: the fewer jobs there were, the less is read again.
    """
    service.wait_ready()
    uploads = uploads_of(table.files, 64 * 1024)
    half = len(uploads) // 2
    send(cluster.bootstrap, job, uploads[:half])
    wait_state(cluster.http, job, "receiving")
    fill(cluster.bootstrap, JOBS, [b"\xff", b"{}", b'{"job": 1}', b"[]"], key=b"nobody")
    earlier = {each: found for each, found in written_results(cluster.bootstrap).items() if each != job}
    service.stop()
    shutil.rmtree(service.data / "checkpoint")
    service.start()
    send(cluster.bootstrap, job, uploads[half:])
    told = wait_state(cluster.http, job, "complete", "failed")
    assert told["state"] == "complete", told
    assert told["files"]["itineraries"]["duplicates"] > 0
    check_topic(cluster.bootstrap, cluster.http, {job: table}, tmp_path)
    found = written_results(cluster.bootstrap)
    assert {each: found[each] for each in earlier} == earlier, "nothing of earlier jobs was written again"
    assert any(job in line for line in penstock("flights", "jobs", "--http", cluster.http).lines)


def test_reading_in_large_chunks(
    cluster: SupervisedCluster, service: FlightsService, job: str, tmp_path: Path
) -> None:
    table = make_table(tmp_path / "table", 8_000, seed=5)
    size = table.itineraries.stat().st_size
    submit(cluster.http, table, job, tmp_path / "out")
    table.check(tmp_path / "out")
    sizes = [
        len(message.value() or b"")
        for message in committed(cluster.bootstrap, ITINERARIES, PARTITIONS)
        if message.key() == job.encode()
    ]
    longest = max(map(len, oracle.lines_of(table.itineraries))) + 2
    *chunks, last, end = sizes
    assert all(CHUNK_BYTES_MAX - longest < each <= CHUNK_BYTES_MAX for each in chunks)
    assert (sum(sizes), end) == (size, 0)
    assert 0 < last <= CHUNK_BYTES_MAX
    assert len(chunks) >= 4


def test_no_overhead_per_message(
    cluster: SupervisedCluster, service: FlightsService, table: Table, job: str, tmp_path: Path
) -> None:
    """A few lines in each message: checkpoints and transactions follow micro-batches and not messages."""
    uploads = uploads_of(table.files, 2048)
    assert len(uploads) > ROWS / 8
    before = service.newest("commits")
    send(cluster.bootstrap, job, uploads)
    told = wait_state(cluster.http, job, "complete", "failed")
    assert told["state"] == "complete", told
    batches = service.newest("offsets") - before
    states = [message for message in committed(cluster.bootstrap, JOBS, 1) if message.key() == job.encode()]
    assert batches <= len(uploads) / 20
    assert len(states) <= 2 * batches
    check_topic(cluster.bootstrap, cluster.http, {job: table}, tmp_path)


# Bad jobs, straight onto the topics


def bad_uploads(table: Table) -> dict[str, tuple[list[Upload], str]]:
    """By name, what is sent and a part of the reason that is then told."""
    good = uploads_of(table.files, 64 * 1024)
    first = next(each for each in good if each.file == "itineraries")
    others = [each for each in good if each is not first]
    last = next(each for each in reversed(good) if each.value is not None)
    value, count = first.value or b"", int(good[-1].headers[0][1])

    def instead(changed: bytes) -> list[Upload]:
        return [Upload("itineraries", first.headers, changed), *others]

    def also(headers: list[tuple[str, bytes]], body: bytes | None = None, *, at: int = 0) -> list[Upload]:
        return [*good[:at], Upload("itineraries", headers, body), *good[at:]]

    return {
        "half a line": (instead(value[:-10]), "does not end with a line feed"),
        "wrong columns": (instead(value.replace(b"totalFare", b"price", 1)), "missing column 'totalFare'"),
        "no header": (instead(value[value.index(b"\n") + 1 :]), "missing columns"),
        "not UTF-8": (instead(b"\xff\xfe" + value), "not UTF-8"),
        "binary": (instead(value + b"\0\1\2\n"), "NUL"),
        "a long line": (instead(value + b"x" * CHUNK_BYTES_MAX + b"\n"), f"at most {CHUNK_BYTES_MAX}"),
        "nothing": (also(chunk_headers(count), b""), "the chunk is empty"),
        "after the end": (also(chunk_headers(count), last.value, at=len(good)), "after its end"),
        "end before data": (also(end_headers(1)), "after its end at 1"),
        "two ends": (also(end_headers(count + 1)), f"ended after {count + 1} messages"),
        "empty": (also(end_headers(0)), "the file is empty"),
        "no number": (also([], value), "neither the header"),
        "odd number": (also([("message", b"-1")], value), "no number"),
        "huge number": (also([("message", b"9999999999")], value), "more than"),
    }


@pytest.mark.timeout(240)
def test_bad_jobs_fail_with_a_reason_and_disturb_nobody(
    cluster: SupervisedCluster, service: FlightsService, table: Table, tmp_path: Path
) -> None:
    bad = {str(uuid.uuid4()): each for each in bad_uploads(table).values()}
    shuffled, gateway = str(uuid.uuid4()), str(uuid.uuid4())
    for number, (job, (uploads, _)) in enumerate(bad.items()):
        send(cluster.bootstrap, job, uploads)
        if number == len(bad) // 2:
            # Ends first, itineraries before airports, the last message before the first: all is well.
            send(cluster.bootstrap, shuffled, uploads_of(table.files, 64 * 1024)[::-1])
    for topic in FILE_TOPICS.values():  # of no job
        fill(cluster.bootstrap, topic, [b"x", None], key=b"nobody", headers=[("message", b"0")])
        fill(cluster.bootstrap, topic, [b"x"])
    fill(cluster.bootstrap, "flights.requests", [b"{", None, b'{"request": "x"}'], key=gateway.encode())
    submit(cluster.http, table, gateway, tmp_path / "out")
    table.check(tmp_path / "out")
    for job, (_, reason) in bad.items():
        told = wait_state(cluster.http, job, "failed", "complete")
        assert told["state"] == "failed", (reason, told)
        assert reason in told["reason"]
    check_topic(cluster.bootstrap, cluster.http, {shuffled: table, gateway: table}, tmp_path)
    check_failures(cluster, {job: reason for job, (_, reason) in bad.items()})


def check_failures(cluster: SupervisedCluster, reasons: dict[str, str]) -> None:
    """Whoever reads the results of such a job is told why there are none."""
    found = written_results(cluster.bootstrap)
    for job, reason in reasons.items():
        ends = found[job].ends
        assert set(ends) == set(oracle.COLUMNS)
        assert all(reason in (end.failed or "") for each in ends.values() for end in each)
    job, reason = next(iter(reasons.items()))
    finished = penstock("flights", "results", job, "q3", "--http", cluster.http)
    assert reason in finished.complaint


def test_odd_tables(cluster: SupervisedCluster, service: FlightsService, tmp_path: Path) -> None:
    """Nothing but a header line; and carriage returns, more columns, no line feed at the end."""
    empty, odd = tmp_path / "empty", tmp_path / "odd"
    plain = make_table(odd, 500, seed=9)
    lines = plain.itineraries.read_bytes().splitlines()
    rows = [b"more," + line if number == 0 else b"1," + line for number, line in enumerate(lines)]
    plain.itineraries.write_bytes(b"\r\n".join([*rows, b"too,few", b"\xff" * 30]))
    empty.mkdir()
    (empty / "itineraries.csv").write_bytes(lines[0] + b"\n")
    (empty / "airports.csv").write_bytes(plain.airports.read_bytes())
    tables = {str(uuid.uuid4()): table_of(folder) for folder in (empty, odd)}
    check_answers(cluster, tables, tmp_path)


# Jobs that take their time


def test_rows_come_while_data_arrives_airports_may_be_late_and_one_bad_job_fails_alone(
    cluster: SupervisedCluster, service: FlightsService, tmp_path: Path
) -> None:
    """Messages come twice, and the airports of one job last."""
    late, early, broken = (
        SlowUpload(cluster.bootstrap, tmp_path / name, seed=seed, rows=rows)
        for seed, (name, rows) in enumerate((("late", 2_000), ("early", 2_500), ("broken", 10)))
    )
    header, rest = (broken.folder / "itineraries.csv").read_bytes().split(b"\n", 1)
    (broken.folder / "itineraries.csv").write_bytes(header.replace(b"totalFare", b"price") + b"\n" + rest)
    staged = staged_files(service)
    with closing(Told(cluster.bootstrap, late, early, broken)) as told:
        fill(cluster.bootstrap, REQUESTS, [request_value(Request.CREATE), b"{"], key=late.job)
        broken.send("airports")
        broken.send("itineraries")
        early.send("airports")
        early.send("itineraries", until=6)
        early.send("itineraries", first=2, until=5)
        late.send("itineraries", until=5)
        wait_until(lambda: told.is_ended(broken), "the bad job fails", timeout_s=ANSWER_S_MAX)
        wait_until(lambda: told.received(early, "itineraries") == 6, "half is taken", timeout_s=ANSWER_S_MAX)
        wait_until(lambda: told.received(late, "itineraries") == 5, "half is staged", timeout_s=ANSWER_S_MAX)
        assert told.rows.get((early.job, "q2")), "what is found in the first half is not kept back"

        early_messages = early.send("itineraries", first=4)
        late.send("itineraries", first=3)
        late.send("airports")
        for upload in (early, late):
            wait_until(partial(told.is_ended, upload), "it is answered", timeout_s=ANSWER_S_MAX)
        results = service.data / "results"
        for upload in (early, late):
            upload.check(told)
            upload.check_files(results / upload.job)

        assert told.jobs[broken.job].state is State.FAILED
        assert told.ends[broken.job, "q3"] == told.jobs[broken.job].reason
        assert "missing column 'totalFare'" in str(told.jobs[broken.job].reason)
        progress = told.jobs[early.job].files["itineraries"]
        assert (progress.received, progress.duplicates) == (early_messages, 5)
        assert staged_files(service) <= staged

        fill(cluster.bootstrap, REQUESTS, [request_value(Request.DELETE)], key=early.job)
        wait_until(
            lambda: told.read().jobs[early.job].state is State.DELETED,
            "it is deleted",
            timeout_s=ANSWER_S_MAX,
        )
        wait_until(lambda: not (results / early.job).exists(), "its files are gone")
        assert (results / late.job).exists()


def staged_files(service: FlightsService) -> set[Path]:
    """What is kept of jobs that are under way."""
    return {path for kind in ("raw", "jobs") for path in (service.data / kind).rglob("*.*")}


# Death


@pytest.mark.timeout(600)
def test_workers_that_are_killed_again_and_again_are_not_the_fault_of_a_job(
    cluster: SupervisedCluster, service: FlightsService, table: Table, job: str, tmp_path: Path
) -> None:
    """In the long form more often in one batch than it takes until the service looks for a job to blame."""
    service.wait_ready()
    done = service.newest("commits")
    send(cluster.bootstrap, job, uploads_of(table.files))
    before = time_of_workers(service)
    kills = 0

    def is_over() -> bool:
        nonlocal kills
        if service.newest("offsets") > done and service.is_ready:
            busy = [pid for pid, ticks in time_of_workers(service).items() if ticks > before.get(pid, 0)]
            kills += sum(map(processes.kill, busy)) > 0
        return kills >= WORKER_KILLS or service.newest("commits") > done

    wait_until(is_over, "workers are killed", timeout_s=300, at_once=True)
    told = wait_state(cluster.http, job, "complete", "failed")
    assert told["state"] == "complete", told
    assert kills >= 1
    print(f"workers were killed {kills} times, started again {service.log.count('starting again')} times")
    check_topic(cluster.bootstrap, cluster.http, {job: table}, tmp_path)


def time_of_workers(service: FlightsService) -> dict[int, int]:
    """Ticks of the processor, of those that compute and not of those that only plan what others will do."""
    workers = [pid for pid in service.worker_pids if processes.command_of(pid)[-1:] == ["pyspark.worker"]]
    return {pid: ticks for pid in workers if (ticks := processes.ticks_of(pid)) is not None}


@pytest.mark.timeout(KILLS * 60 + 600)
def test_everybody_is_killed_and_every_result_is_exact(
    cluster: SupervisedCluster, service: FlightsService, tmp_path: Path
) -> None:
    pack = Pack(tmp_path, cluster, service, SEED)
    tables = [make_table(tmp_path / f"table-{seed}", ROWS + 500 * seed, seed=seed) for seed in range(CLIENTS)]
    try:
        service.wait_ready()
        for number, table in enumerate(tables):
            pack.add_client(table, BurstClient if number == 0 else Client)
        pack.rage(KILLS // 2)
        pack.forget_commit()
        pack.rage(KILLS - KILLS // 2 - 1)
        pack.finish()
        pack.check()
        wait_until(lambda: is_seen(cluster, service), "the driver's heartbeat", timeout_s=30)
    except BaseException as error:
        error.add_note(f"PENSTOCK_FLIGHTS_SEED={SEED} PENSTOCK_FLIGHTS_KILLS={KILLS}; what happened:")
        error.add_note("\n".join(pack.story))
        raise
    finally:
        pack.end()
    done = {client.name: len(client.done) for client in pack.clients}
    print("\n".join(pack.story))
    print(f"seed {SEED}, killed: {dict(pack.kills)}; jobs done: {done}")
    assert all(done.values())


def is_seen(cluster: SupervisedCluster, service: FlightsService) -> bool:
    """Whether the state of the cluster tells of the newest driver."""
    told = {node["id"]: node for node in cluster.status()["nodes"]}
    return (told["flights"]["pid"], told["flights"]["state"]) == (service.driver_pid, "running")
