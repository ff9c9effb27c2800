"""Tables for the Flights service, clients that send them, and what the service has written.

    table = make_table(folder / "table", rows=3_000, seed=1)
    submit(cluster.http, table, job, out)
    table.check(out)
    check_topic(cluster.bootstrap, cluster.http, {job: table}, folder)

What must be said of a table is told by the oracle of the batch job.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from penstock.flights.chunks import CHUNK_BYTES_MAX, cut
from penstock.flights.records import ResultEnd, chunk_headers, end_headers, parse_result
from penstock.flights.topics import FILE_TOPICS, PARTITIONS, RESULTS
from penstock.pipelines.flights.generate import generate
from tests.support import flights_oracle as oracle
from tests.support.managed_process import SOURCE
from tests.support.wait import PATIENCE, wait_until

READ_S_MAX, SUBMIT_S_MAX = 60.0, 300.0

# Tables


@dataclass(frozen=True)
class Table:
    """The two files of a job, and what must be said of them."""

    itineraries: Path
    airports: Path
    answer: oracle.Answer

    @property
    def files(self) -> dict[str, Path]:
        return {"airports": self.airports, "itineraries": self.itineraries}

    def check(self, folder: Path) -> None:
        oracle.check_results(folder, self.answer)


def make_table(folder: Path, rows: int, seed: int) -> Table:
    generate(rows, str(folder), seed=seed)
    return table_of(folder)


def table_of(folder: Path) -> Table:
    files = folder / "itineraries.csv", folder / "airports.csv"
    return Table(*files, oracle.answer(*files))


# Clients


def submit_command(http: str, table: Table, job: str, out: Path) -> list[str]:
    command = [sys.executable, "-m", "penstock", "flights", "submit", "--http", http, "--job", job]
    command += ["--itineraries", str(table.itineraries), "--airports", str(table.airports)]
    return [*command, "--out", str(out)]


def submit(http: str, table: Table, job: str, out: Path) -> str:
    """As a user does; what was printed."""
    result = subprocess.run(
        submit_command(http, table, job, out),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        timeout=SUBMIT_S_MAX,
        text=True,
    )
    assert result.returncode == 0, f"exit code {result.returncode}: {result.stderr}"
    return result.stdout


@dataclass(frozen=True)
class Upload:
    """A record of one of the two topics of files."""

    file: str
    headers: list[tuple[str, bytes]]
    value: bytes | None


def uploads_of(files: Mapping[str, Path], chunk_bytes: int = CHUNK_BYTES_MAX) -> list[Upload]:
    """What a client sends, in its order."""
    found = []
    for name, path in files.items():
        with path.open("rb") as file:
            chunks = list(cut(file.read, chunk_bytes))
        found += [Upload(name, chunk_headers(number), chunk) for number, chunk in enumerate(chunks)]
        found.append(Upload(name, end_headers(len(chunks)), None))
    return found


def send(bootstrap: str, job: str, uploads: Sequence[Upload]) -> None:
    """With a producer of Kafka, past the gateway, all in one burst."""
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    for each in uploads:
        topic = FILE_TOPICS[each.file]
        producer.produce(topic, each.value, job.encode(), headers=[*each.headers], on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(READ_S_MAX * PATIENCE) == 0
    assert failures == []


def status(http: str, job: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{http}/v1/flights/jobs/{job}", timeout=30) as answer:
        found: dict[str, Any] = json.loads(answer.read())
        return found


def wait_state(http: str, job: str, *states: str, timeout_s: float = 120.0) -> dict[str, Any]:
    """The job, when it is in one of these states."""

    def found() -> dict[str, Any]:
        try:
            told = status(http, job)
        except urllib.error.HTTPError as error:
            if error.code != HTTPStatus.NOT_FOUND:
                raise
            return {}  # sent with a producer, and not yet seen by the service
        return told if told["state"] in states else {}

    what = f"job {job} is {' or '.join(states)}"
    return wait_until(found, what, timeout_s=timeout_s)


# Results


@dataclass
class Written:
    """What the topic of results has of a job."""

    lines: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    ends: dict[str, list[ResultEnd]] = field(default_factory=lambda: defaultdict(list))


def committed(bootstrap: str, topic: str, partitions: int) -> Iterator[Message]:
    """All that a reader of committed data gets."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "nobody",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "log_level": 0,
    }
    at_end: set[int | None] = set()
    deadline = time.monotonic() + READ_S_MAX * PATIENCE
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        while len(at_end) < partitions:
            assert time.monotonic() < deadline, f"topic {topic}: only {at_end} of {partitions} have an end"
            for message in consumer.consume(500, timeout=0.2):
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    at_end.add(message.partition())
                else:
                    assert error.retriable() or error.code() == KafkaError._TRANSPORT, error


def written_results(bootstrap: str) -> dict[str, Written]:
    """By job."""
    found: dict[str, Written] = defaultdict(Written)
    for message in committed(bootstrap, RESULTS, PARTITIONS):
        key, value, headers = message.key(), message.value(), message.headers()
        assert isinstance(key, bytes)
        result = parse_result(headers)  # type: ignore[arg-type] # a list, as long as it comes from a broker
        job = found[key.decode()]
        assert result.query not in job.ends, f"job {key.decode()}, {result.query}: something after its end"
        if isinstance(result, ResultEnd):
            job.ends[result.query].append(result)
            continue
        assert isinstance(value, bytes)
        lines = value.removesuffix(b"\n").split(b"\n")
        assert len(lines) == result.rows
        job.lines[result.query] += lines
    return found


def check_topic(bootstrap: str, http: str, jobs: Mapping[str, Table], folder: Path) -> None:
    """The topic of results has for each of these jobs what the oracle says, each row once."""
    found = written_results(bootstrap)
    for job, table in jobs.items():
        told, written = status(http, job), found[job]
        assert told["state"] == "complete", told
        ends = {query: [end.rows for end in ends] for query, ends in written.ends.items()}
        assert ends == {query: [len(getattr(table.answer, query))] for query in oracle.COLUMNS}, job
        out = folder / f"topic-{job}"
        out.mkdir()
        for query, columns in oracle.COLUMNS.items():
            lines = [columns.encode(), *written.lines[query], b""]
            (out / f"{query}.csv").write_bytes(b"\n".join(lines))
        (out / "summary.json").write_text(json.dumps(told["summary"]))
        try:
            table.check(out)
        except AssertionError as error:
            error.add_note(f"on the topic of results, job {job}: {told}")
            raise
