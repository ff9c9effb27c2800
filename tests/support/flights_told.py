"""A job of the Flights service that is sent bit by bit, and what the service says of it meanwhile.

    upload = SlowUpload(bootstrap, folder, seed=1, rows=2_000)
    upload.send("itineraries", until=5)
    wait_until(lambda: told.received(upload, "itineraries") == 5, "it is taken")

The itineraries end with rows that are of no use, which changes no answer.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from penstock.flights.chunks import cut
from penstock.flights.jobs import QUERIES, Job
from penstock.flights.records import ResultRows, chunk_headers, end_headers, parse_result
from penstock.flights.topics import FILE_TOPICS, JOBS, PLANS, RESULTS
from penstock.pipelines.flights.generate import generate
from penstock.pipelines.flights.schemas import RESULT_COLUMNS
from tests.support import flights_oracle as oracle
from tests.support import topics

CHUNK_BYTES = 64 * 1024
BAD_ROWS = b"short,row\n\n" + b",".join([b""] * 27) + b"\n" + b"\xff\xfe,not,text\n"


class SlowUpload:
    """The messages of a job, sent when the test says so."""

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
    """What the service says of some jobs, read as anybody would."""

    def __init__(self, bootstrap: str, *uploads: SlowUpload) -> None:
        self._names = {upload.job for upload in uploads}
        settings = {"bootstrap.servers": bootstrap, "group.id": "told", "enable.auto.commit": False}
        self._consumer = Consumer(settings | {"isolation.level": "read_committed", "log_level": 0})
        names = (JOBS, RESULTS)
        self._consumer.assign(
            [TopicPartition(name, number, 0) for name in names for number in range(PLANS[name].partitions)]
        )
        self.jobs: dict[str, Job] = {}
        self.rows: dict[tuple[str, str], list[str]] = {}
        self.ends: dict[tuple[str, str], str | int] = {}

    def close(self) -> None:
        self._consumer.close()

    def read(self) -> Told:
        for message in self._consumer.consume(1_000, 0.1):
            key = (message.key() or b"").decode()
            if message.error() is not None or key not in self._names:
                continue
            value = message.value()
            if message.topic() == JOBS:
                self.jobs[key] = Job.from_json(value)
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

    def received(self, upload: SlowUpload, file: str) -> int:
        job = self.read().jobs.get(upload.job)
        return 0 if job is None else job.files[file].received

    def is_ended(self, upload: SlowUpload) -> bool:
        self.read()
        job = self.jobs.get(upload.job)
        ended = all((upload.job, query) in self.ends for query in QUERIES)
        return ended and job is not None and job.state.is_final
