"""That the service lives, told once a second by a thread of its own, also while Spark starts."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException, Producer

from penstock.flights.records import Heartbeat, Request, request_value
from penstock.flights.topics import HEARTBEATS, REQUESTS
from penstock.spark.cluster import client_settings, new_client

if TYPE_CHECKING:
    from types import TracebackType

    from penstock.pipelines.flights.service.ledger import Limits
    from penstock.spark.options import Connection

SERVICE: Final = "flights"
EVERY_S: Final = 1.0
LATE_MS: Final = 5_000
"""A heartbeat that could not be written by then is of no use any more."""
FLUSH_S: Final = 2.0


class Heartbeats:
    """Its producer also writes the few requests that the service has to itself."""

    def __init__(self, connection: Connection, limits: Limits) -> None:
        self.state = "starting"
        self.batch: int | None = None
        self._limits = {name: asdict(limits)[name] for name in ("job_bytes", "total_bytes", "jobs")}
        self._started_ms = time.time_ns() // 1_000_000
        settings = client_settings(connection, linger_ms=0, message_timeout_ms=LATE_MS, acks="all")
        self._producer = new_client(Producer, settings)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeats", daemon=True)

    def __enter__(self) -> Heartbeats:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._producer.flush(FLUSH_S)

    def expire(self, job: str) -> None:
        """One that is lost is written again: the job stays due."""
        self._send(REQUESTS, job.encode(), request_value(Request.EXPIRE))

    def _run(self) -> None:
        while True:
            now_ms = time.time_ns() // 1_000_000
            beat = Heartbeat(
                SERVICE,
                os.getpid(),
                socket.gethostname(),
                self.state,
                now_ms,
                self._started_ms,
                self._limits,
                self.batch,
            )
            self._send(HEARTBEATS, SERVICE.encode(), beat.to_json())
            if self._ended.wait(EVERY_S):
                return

    def _send(self, topic: str, key: bytes, value: bytes) -> None:
        with suppress(BufferError, KafkaException):  # brokers are away, and the next one comes soon
            self._producer.produce(topic, value, key)
        self._producer.poll(0)
