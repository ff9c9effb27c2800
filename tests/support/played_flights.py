"""A Flights service without Spark: reads chunks from their topics, counts each once, and answers.

    with PlayedFlights(broker.bootstrap) as service:
        …                       # nothing is taken yet
        service.go()

To query 1 it answers with one row for each chunk of itineraries, in the order they come; to query 3 with one
row when everything is there. The topics must be there when it starts.
"""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Message, TopicPartition

from penstock.flights.jobs import FILES, QUERIES, FileProgress, Job, QueryProgress, State
from penstock.flights.records import Chunk, ResultEnd, parse_upload
from penstock.flights.topics import FILE_TOPICS, PARTITIONS
from tests.support.fake_flights import FakeFlights, results_partition

if TYPE_CHECKING:
    from types import TracebackType

FILE_OF_TOPIC = {topic: file for file, topic in FILE_TOPICS.items()}
RECORDS_AT_ONCE = 4


@dataclass
class Received:
    chunks: dict[str, dict[int, bytes]] = field(default_factory=lambda: {file: {} for file in FILES})
    ends: dict[str, int] = field(default_factory=dict)
    duplicates: int = 0
    rows: list[bytes] = field(default_factory=list)
    is_done: bool = False

    def content(self, file: str) -> bytes:
        return b"".join(self.chunks[file][number] for number in sorted(self.chunks[file]))

    def progress(self, file: str) -> FileProgress:
        there = self.chunks[file]
        reached = next(number for number in range(len(there) + 1) if number not in there)
        size = sum(map(len, there.values()))
        return FileProgress(reached, len(there), self.ends.get(file), size, self.duplicates)

    @property
    def is_complete(self) -> bool:
        return all(self.progress(file).is_complete for file in FILES)


class PlayedFlights:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._fake = FakeFlights(bootstrap)
        self.jobs: dict[str, Received] = {}
        self._may_go = threading.Event()
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def go(self) -> None:
        self._may_go.set()

    def _run(self) -> None:
        try:
            self._serve()
        except BaseException as error:  # for the thread that waits
            self._failure = error

    def _serve(self) -> None:
        settings = {
            "bootstrap.servers": self._bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        self._may_go.wait()
        with closing(Consumer(settings)) as consumer:
            consumer.assign(
                [TopicPartition(topic, number, 0) for topic in FILE_OF_TOPIC for number in range(PARTITIONS)]
            )
            while not self._stopping.is_set():
                for message in consumer.consume(RECORDS_AT_ONCE, timeout=0.1):
                    assert message.error() is None, message.error()
                    self._take(message)

    def _take(self, message: Message) -> None:
        topic, key = message.topic(), message.key()
        assert topic is not None
        assert isinstance(key, bytes)
        job, file = key.decode(), FILE_OF_TOPIC[topic]
        received = self.jobs.setdefault(job, Received())
        if received.is_done:
            return
        found: Any = parse_upload(message.headers())
        rows: list[bytes] = []
        if not isinstance(found, Chunk):
            received.ends[file] = found.messages
        elif found.message in received.chunks[file]:
            received.duplicates += 1
        else:
            body = message.value()
            assert isinstance(body, bytes)
            received.chunks[file][found.message] = body
            if file == "itineraries":
                rows = [b"chunk%d,AAA,BBB,%d.5,C||D||E" % (found.message, len(body))]
        received.rows += rows
        received.is_done = received.is_complete
        self._tell(job, received, rows)

    def _tell(self, job: str, received: Received, rows: list[bytes]) -> None:
        counts = dict.fromkeys(QUERIES, 0) | {"q1": len(received.rows), "q3": int(received.is_done)}
        done = received.is_done
        state = Job(
            job,
            State.COMPLETE if done else State.RECEIVING,
            created_ms=1,
            updated_ms=2,
            files={file: received.progress(file) for file in FILES},
            queries={
                query: QueryProgress("complete" if done else "partial", count)
                for query, count in counts.items()
            },
            rows_read=len(received.rows),
            results_partition=results_partition(job),
            summary=summary(counts) if done else None,
        )
        answers = {"q1": rows} if rows else {}
        if done:
            answers["q3"] = [b"fast,AAA,BBB,PT5H,C||D||E"]
        ends = [ResultEnd(query, count) for query, count in counts.items()] if done else []
        self._fake.tell(state, rows=answers, ends=ends)

    def __enter__(self) -> PlayedFlights:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._may_go.set()
        self._thread.join()
        if self._failure is not None and error is None:
            raise self._failure


def summary(counts: dict[str, int]) -> dict[str, Any]:
    return {
        "rows_read": counts["q1"],
        "rows_rejected": 0,
        "rejected": {},
        "left_out": {"q2": {}, "q3": {}},
        "average_fare": 12.5,
        "queries": counts,
        "seconds": 1.5,
    }
