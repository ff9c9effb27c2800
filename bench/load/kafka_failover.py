"""Steady writes, a leader killed with -9 in their midst: prints the seconds to the next acknowledgement.

What counts is the first message written when the leader was gone: an answer that was under way when it died
is no sign of life. The client looks for another leader every few milliseconds, so that its patience is not
what is measured. Every message must be acknowledged in the end.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import psutil
from confluent_kafka import Producer

from bench.load.arguments import arguments, payload, result

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

SIZE = 100
INTERVAL_SECONDS = 0.01
SETTLED_MESSAGES = 100
SECONDS_MAX = 90.0
CONFIG: dict[str, Any] = {
    "acks": "all",
    "linger.ms": 0,
    "max.in.flight.requests.per.connection": 5,
    "message.timeout.ms": int(SECONDS_MAX * 1000),
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 20,
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 20,
    "topic.metadata.refresh.interval.ms": 20,
    "topic.metadata.refresh.fast.interval.ms": 10,
    "log_level": 0,
}


class SteadyWrites:
    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._payload = payload(SIZE)
        self._due = time.monotonic()
        self.written = self.acknowledged = 0
        self.counted_from: int | None = None
        self.counted_at: float | None = None
        """When the first message from `counted_from` on was acknowledged."""

    def until(self, is_so: Callable[[], bool], what: str) -> None:
        """Goes on writing until then."""
        deadline = time.monotonic() + SECONDS_MAX
        while not is_so():
            now = time.monotonic()
            if now > deadline:
                raise SystemExit(f"{what}: not after {SECONDS_MAX:.0f} s")
            if now >= self._due:
                self._write()
                self._due = max(self._due + INTERVAL_SECONDS, now)
            self._producer.poll(max(0.0, self._due - time.monotonic()))

    def flush(self) -> None:
        if left := self._producer.flush(SECONDS_MAX):
            raise SystemExit(f"{left} messages not acknowledged")

    def _write(self) -> None:
        number = self.written
        self.written += 1

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                raise SystemExit(f"message {number}: {error}")
            self.acknowledged += 1
            is_counted = self.counted_from is not None and number >= self.counted_from
            if is_counted and self.counted_at is None:
                self.counted_at = time.monotonic()

        self._producer.produce(self._topic, self._payload, partition=0, on_delivery=delivered)


def is_gone(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def main() -> None:
    given = arguments()
    producer = Producer({**CONFIG, "bootstrap.servers": given["bootstrap"]})
    writes = SteadyWrites(producer, given["topic"])
    writes.until(lambda: writes.acknowledged >= SETTLED_MESSAGES, "a steady flow")
    killed_at = time.monotonic()
    os.kill(given["leader_pid"], signal.SIGKILL)
    writes.until(lambda: is_gone(given["leader_pid"]), "the end of the leader")
    writes.counted_from = writes.written
    writes.until(lambda: writes.counted_at is not None, "an acknowledgement")
    assert writes.counted_at is not None
    writes.flush()
    result(messages=writes.acknowledged, seconds=writes.counted_at - killed_at)


if __name__ == "__main__":
    main()
