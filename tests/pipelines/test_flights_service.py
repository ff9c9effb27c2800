"""`penstock flights serve` on a real broker: several jobs at once, one of them broken, with messages that
come twice and airports that come last. Every row of the answers is there once, as the oracle says.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from penstock.flights.chunks import cut
from penstock.flights.jobs import QUERIES, Job, State
from penstock.flights.records import (
    Heartbeat,
    Request,
    ResultRows,
    chunk_headers,
    end_headers,
    parse_result,
    request_value,
)
from penstock.flights.topics import FILE_TOPICS, HEARTBEATS, JOBS, PLANS, REQUESTS, RESULTS
from penstock.pipelines.flights.generate import generate
from penstock.pipelines.flights.schemas import RESULT_COLUMNS
from tests.support import flights_oracle as oracle
from tests.support import topics
from tests.support.java import QUICK_START
from tests.support.managed_process import SOURCE
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.broker import BrokerProcess

START_S_MAX, ANSWER_S_MAX, STOP_S_MAX = 180.0, 180.0, 60.0
CHUNK_BYTES = 64 * 1024
BAD_ROWS = b"short,row\n\n" + b",".join([b""] * 27) + b"\n" + b"\xff\xfe,not,text\n"


class Upload:
    """The messages of a job, as a client would send them."""

    def __init__(self, bootstrap: str, folder: Path, *, seed: int, rows: int) -> None:
        self.job = str(uuid.uuid4())
        self.folder = folder
        self._bootstrap = bootstrap
        generate(rows, str(folder), seed=seed)
        with (folder / "itineraries.csv").open("ab") as file:
            file.write(BAD_ROWS)

    def chunks(self, file: str) -> list[bytes]:
        with (self.folder / f"{file}.csv").open("rb") as opened:
            return list(cut(opened.read, CHUNK_BYTES))

    def send(self, file: str, first: int = 0, until: int | None = None) -> int:
        """Messages from the first up to the other, or to the last and the end; how many there are."""
        chunks = self.chunks(file)
        sent: list[dict[str, Any]] = [
            {"value": chunk, "key": self.job, "headers": chunk_headers(message)}
            for message, chunk in enumerate(chunks[first:until], first)
        ]
        if until is None:
            sent.append({"value": None, "key": self.job, "headers": end_headers(len(chunks))})
        topics.fill_all(self._bootstrap, FILE_TOPICS[file], sent)
        return len(chunks)

    def check(self, told: Told) -> None:
        """The rows on the topic are those of the oracle, and the summary in the state, too."""
        found = self.folder / "found"
        found.mkdir()
        for query, columns in RESULT_COLUMNS.items():
            text = "".join(told.rows.get((self.job, query), []))
            (found / f"{query}.csv").write_text(",".join(columns) + "\n" + text, newline="")
        (found / "summary.json").write_text(json.dumps(told.jobs[self.job].summary))
        self.check_files(found)

    def check_files(self, folder: Path) -> None:
        oracle.check_results(
            folder, oracle.answer(self.folder / "itineraries.csv", self.folder / "airports.csv")
        )


class Told:
    """What the service says, read as anybody would."""

    def __init__(self, bootstrap: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": "told", "enable.auto.commit": False}
        self._consumer = Consumer(settings | {"isolation.level": "read_committed", "log_level": 0})
        names = (JOBS, RESULTS, HEARTBEATS)
        self._consumer.assign(
            [TopicPartition(name, number, 0) for name in names for number in range(PLANS[name].partitions)]
        )
        self.jobs: dict[str, Job] = {}
        self.rows: dict[tuple[str, str], list[str]] = {}
        self.ends: dict[tuple[str, str], str | int] = {}
        self.heartbeat: Heartbeat | None = None

    def read(self) -> Told:
        for message in self._consumer.consume(1_000, 0.1):
            key = (message.key() or b"").decode()  # type: ignore[union-attr]  # the service's keys are bytes
            if message.error() is not None:
                continue
            value = message.value()
            if message.topic() == JOBS:
                self.jobs[key] = Job.from_json(value)
            elif message.topic() == HEARTBEATS:
                self.heartbeat = Heartbeat.from_json(value)
            else:
                self._result(key, message.headers(), value)
        return self

    def _result(self, job: str, headers: Any, value: bytes | None) -> None:
        result = parse_result(headers)
        assert (job, result.query) not in self.ends, "something came behind the end"
        if isinstance(result, ResultRows):
            assert value is not None
            assert value.count(b"\n") == result.rows
            self.rows.setdefault((job, result.query), []).append(value.decode())
        else:
            self.ends[job, result.query] = result.failed if result.failed is not None else result.rows or 0

    def received(self, upload: Upload, file: str) -> int:
        job = self.read().jobs.get(upload.job)
        return 0 if job is None else job.files[file].received

    def is_ended(self, upload: Upload) -> bool:
        self.read()
        job = self.jobs.get(upload.job)
        ended = all((upload.job, query) in self.ends for query in QUERIES)
        return ended and job is not None and job.state.is_final


@contextmanager
def serving(bootstrap: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The command, which starts its driver again by itself."""
    command = [sys.executable, "-m", "penstock", "flights", "serve", "--bootstrap", bootstrap]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "JAVA_TOOL_OPTIONS": QUICK_START}
    log = folder / "serve.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--data", str(folder / "service"), "--master", "local[2]"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
        )
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_S_MAX) == 0, log.read_text()
    except BaseException:
        print(log.read_text())
        raise
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.mark.timeout(900)
def test_rows_come_while_data_arrives_airports_may_be_late_and_one_bad_job_fails_alone(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    late, early, broken = (
        Upload(broker.bootstrap, tmp_path / name, seed=seed, rows=rows)
        for seed, (name, rows) in enumerate((("late", 2_000), ("early", 3_000), ("broken", 10)))
    )
    header, rest = (broken.folder / "itineraries.csv").read_bytes().split(b"\n", 1)
    (broken.folder / "itineraries.csv").write_bytes(header.replace(b"totalFare", b"price") + b"\n" + rest)
    with serving(broker.bootstrap, tmp_path):
        wait_for_topics(broker.bootstrap)
        told = Told(broker.bootstrap)
        wait_until(
            lambda: (beat := told.read().heartbeat) and beat.state == "running",
            "the service runs",
            timeout_s=START_S_MAX,
        )
        topics.fill(broker.bootstrap, REQUESTS, [request_value(Request.CREATE), b"{"], key=late.job)
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
            wait_until(lambda upload=upload: told.is_ended(upload), "it is answered", timeout_s=ANSWER_S_MAX)
        for upload in (early, late):
            upload.check(told)
            upload.check_files(tmp_path / "service" / "results" / upload.job)

        assert told.jobs[broken.job].state is State.FAILED
        assert told.ends[broken.job, "q3"] == told.jobs[broken.job].reason
        assert "missing column 'totalFare'" in str(told.jobs[broken.job].reason)
        progress = told.jobs[early.job].files["itineraries"]
        assert (progress.received, progress.duplicates) == (early_messages, 5)
        staged = [path for kind in ("raw", "jobs") for path in (tmp_path / "service" / kind).rglob("*.*")]
        assert staged == []

        topics.fill(broker.bootstrap, REQUESTS, [request_value(Request.DELETE)], key=early.job)
        wait_until(
            lambda: told.read().jobs[early.job].state is State.DELETED,
            "it is deleted",
            timeout_s=ANSWER_S_MAX,
        )
        results = tmp_path / "service" / "results"
        wait_until(lambda: [path.name for path in results.iterdir()] == [late.job], "its files are gone")


def wait_for_topics(bootstrap: str) -> None:
    client = topics.admin(bootstrap)
    wait_until(
        lambda: set(PLANS) <= set(client.list_topics(timeout=15).topics),
        "the service makes its topics",
        timeout_s=START_S_MAX,
    )
