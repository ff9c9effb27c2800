"""The Flights service as a gateway sees it: records of `flights.jobs`, `flights.results` and heartbeats.

    service = FakeFlights(broker.bootstrap)
    service.tell(replace(job, state=State.COMPUTING), rows={"q1": [b"…"]})

What is told in one call is committed in one transaction, as the real service does it.
"""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING, Any
from zlib import crc32

from confluent_kafka import Producer

from penstock.flights.records import Heartbeat, ResultEnd, result_end_headers, rows_headers
from penstock.flights.topics import HEARTBEATS, JOBS, PARTITIONS, RESULTS
from tests.support.transactions import TIMEOUT_S, transactional

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.flights.jobs import Job


def results_partition(job: str) -> int:
    return crc32(job.encode()) % PARTITIONS


class FakeFlights:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._producer = transactional(bootstrap, "fake flights")
        self._plain = Producer({"bootstrap.servers": bootstrap, "log_level": 0})

    def begin(
        self,
        *jobs: Job,
        rows: Mapping[str, Sequence[bytes]] | None = None,
        ends: Sequence[ResultEnd] = (),
    ) -> None:
        """A transaction with states of jobs, and with lines and ends of results of the first of them."""
        self._producer.begin_transaction()
        for query, lines in (rows or {}).items():
            value = b"".join(line + b"\n" for line in lines)
            self._result(jobs[0], value, rows_headers(query, len(lines)))
        for end in ends:
            self._result(jobs[0], None, result_end_headers(end))
        for job in jobs:
            value = job.to_json({"pieces": ["its own business"]})
            self._producer.produce(JOBS, value, job.job.encode(), partition=0)
        assert self._producer.flush(TIMEOUT_S) == 0

    def commit(self) -> None:
        self._producer.commit_transaction(TIMEOUT_S)

    def abort(self) -> None:
        self._producer.abort_transaction(TIMEOUT_S)

    def tell(self, *jobs: Job, **what: Any) -> None:
        self.begin(*jobs, **what)
        self.commit()

    def forget(self, job: str) -> None:
        self._producer.begin_transaction()
        self._producer.produce(JOBS, None, job.encode(), partition=0)
        self.commit()

    def beat(self, *, age_s: float = 0.0, **changes: Any) -> None:
        now_ms = time.time_ns() // 1_000_000 - int(age_s * 1000)
        fields = {
            "service": "flights",
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "state": "running",
            "at_ms": now_ms,
            "started_ms": now_ms,
            "limits": {},
        }
        self._plain.produce(HEARTBEATS, Heartbeat(**(fields | changes)).to_json(), b"flights")
        assert self._plain.flush(TIMEOUT_S) == 0

    def _result(self, job: Job, value: bytes | None, headers: list[tuple[str, bytes]]) -> None:
        key, partition = job.job.encode(), results_partition(job.job)
        self._producer.produce(RESULTS, value, key, partition=partition, headers=list(headers))
