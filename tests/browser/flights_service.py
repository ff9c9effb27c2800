"""The Flights service for the browser, and small files to send. No Spark runs: tests write what it would."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from penstock.flights.jobs import FileProgress, Job, QueryProgress, State
from penstock.flights.records import (
    Heartbeat,
    ResultEnd,
    parse_request,
    result_end_headers,
    rows_headers,
)
from penstock.flights.topics import FILE_TOPICS, HEARTBEATS, JOBS, PARTITIONS, PLANS, REQUESTS, RESULTS
from penstock.pipelines.flights.schemas import AIRPORT_COLUMNS, ITINERARY_COLUMNS
from tests.support.topics import admin, create_topic
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

READ_S_MAX = 15.0
SERVICE = "flights"
AIRPORTS = "\n".join([";".join(AIRPORT_COLUMNS), *(f"A{i:02};{i}.5;-{i}.25" for i in range(40))])
"""Its last line has no line feed."""


def write_files(folder: Path, *, rows: int) -> dict[str, Path]:
    """Airports in one chunk; itineraries of about 200 bytes a row."""
    files = {"airports": folder / "airports.csv", "itineraries": folder / "itineraries.csv"}
    files["airports"].write_text(AIRPORTS)
    lines = (
        f"{i:032x},A01,A02,PT{i % 9}H,{i % 700}.5,{i % 5000},{'A03||A04||' * 12}A02" for i in range(rows)
    )
    files["itineraries"].write_text("\n".join([",".join(ITINERARY_COLUMNS), *lines]) + "\n")
    return files


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class FlightsStandIn:
    """Writes heartbeats, states of jobs and rows, as the service does, but for the transactions."""

    def __init__(self, bootstrap: str) -> None:
        servers = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._producer = Producer({**servers, "enable.idempotence": True, "linger.ms": 0})
        reading = {"group.id": "look", "enable.auto.commit": False, "fetch.wait.max.ms": 10}
        self._consumer = Consumer({**servers, **reading})
        known = admin(bootstrap).list_topics(timeout=READ_S_MAX).topics
        for plan in PLANS.values():
            if plan.name not in known:
                config = {name.replace(".", "_"): value for name, value in plan.config.items()}
                create_topic(bootstrap, plan.name, plan.partitions, **config)

    def beat(self, state: str = "running") -> None:
        beat = Heartbeat(SERVICE, os.getpid(), "here", state, now_ms(), now_ms())
        self._write(HEARTBEATS, [{"key": SERVICE, "value": beat.to_json()}])

    def tell(self, job: Job) -> Job:
        """What has become of it."""
        job = replace(job, updated_ms=now_ms())
        self._write(JOBS, [{"key": job.job, "value": job.to_json({"private": True})}])
        return job

    def rows(self, job: Job, query: str, lines: Sequence[str]) -> None:
        text = "".join(f"{line}\n" for line in lines).encode()
        headers = rows_headers(query, len(lines))
        self._write(
            RESULTS, [{"key": job.job, "value": text, "headers": headers, "partition": self._place(job)}]
        )

    def ends(self, job: Job, rows: Mapping[str, int]) -> None:
        """After all rows of each query, so many."""
        self._end(job, [ResultEnd(query, each) for query, each in rows.items()])

    def fails(self, job: Job, reason: str, queries: Sequence[str]) -> None:
        self._end(job, [ResultEnd(query, None, reason) for query in queries])

    def _end(self, job: Job, ends: Sequence[ResultEnd]) -> None:
        place = self._place(job)
        messages = ({"key": job.job, "headers": result_end_headers(end), "partition": place} for end in ends)
        self._write(RESULTS, list(messages))

    def _place(self, job: Job) -> int:
        assert 0 <= job.results_partition < PARTITIONS
        return job.results_partition

    def _write(self, topic: str, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            self._producer.produce(topic, on_delivery=check_delivery, **message)
        assert self._producer.flush(READ_S_MAX) == 0

    def close(self) -> None:
        self._consumer.close()

    # What others wrote

    def chunks(self, job: str, file: str) -> tuple[list[bytes], list[int]]:
        """The chunks of a file as they are on its topic, by their numbers; and the ends that were told."""
        chunks: dict[int, bytes] = {}
        ends: list[int] = []
        for message in self._read(FILE_TOPICS[file]):
            if message.key() != job.encode():
                continue
            headers = dict(message.headers() or ())
            if "end" in headers:
                ends.append(int(headers["end"]))
            else:
                number = int(headers["message"])
                assert chunks.setdefault(number, message.value()) == message.value()
        assert sorted(chunks) == list(range(len(chunks)))
        return [chunks[number] for number in sorted(chunks)], ends

    def requests(self, job: str) -> list[str]:
        return [
            parse_request(message.value()).value
            for message in self._read(REQUESTS)
            if message.key() == job.encode()
        ]

    def _read(self, topic: str) -> list[Message]:
        """All that is there now."""
        places = [TopicPartition(topic, each, 0) for each in range(PLANS[topic].partitions)]
        total = sum(self._consumer.get_watermark_offsets(place, READ_S_MAX)[1] for place in places)
        self._consumer.assign(places)
        found: list[Message] = []

        def has_all() -> bool:
            found.extend(self._consumer.consume(max(1, total - len(found)), 0.2))
            return len(found) >= total

        wait_until(has_all, f"{total} messages of {topic}", timeout_s=READ_S_MAX)
        return found


def check_delivery(error: KafkaError | None, _: Message) -> None:
    assert error is None, error


def new_job(state: State = State.RECEIVING, **changes: Any) -> Job:
    return Job(str(uuid4()), state, created_ms=now_ms() - 60_000, **changes)


def received(job: Job, *, rows: int, airports: int = 1, itineraries: int = 3) -> Job:
    """With all messages of both files."""
    counts = {"airports": airports, "itineraries": itineraries}
    files = {
        name: FileProgress(next=each, received=each, messages=each, bytes=each * 400_000)
        for name, each in counts.items()
    }
    return replace(job, files=files, rows_read=rows)


def answered(job: Job, state: str, **rows: int) -> Job:
    """The queries that are named are in that state, with so many rows."""
    told = {query: QueryProgress(state, each) for query, each in rows.items()}  # type: ignore[arg-type]
    return replace(job, queries=job.queries | told)


def many_stopovers(count: int, first: int = 0) -> list[str]:
    """Rows of query 1: half of them with 3 stopovers, a quarter with 4, a quarter with 5."""
    paths = ["||".join(f"S{i}" for i in range(stops)) for stops in (3, 3, 4, 5)]
    return [f"leg{i:04},ATL,BOS,{100 + i}.5,{paths[i % 4]}" for i in range(first, first + count)]


def long_ways(count: int) -> list[str]:
    return [f"leg{i:04},ATL,BOS,{4_000 + 37 * i}.0" for i in range(count)]


def fastest(count: int) -> list[str]:
    return [f"leg{i:04},ATL,BOS,PT{5 + i}H,S0||S1||S2" for i in range(count)]


def route_fares(count: int) -> list[str]:
    """The last one is the dearest."""
    return [f"R{i:02},BOS,{300 + 10 * i}.25,{700 + 10 * i}.5" for i in range(count)]
