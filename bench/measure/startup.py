"""From starting the process to the first acknowledged message, and the memory of an idle server."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from bench import targets
from bench.peers import kafka, penstock
from bench.process import UnavailableError, resident_bytes
from bench.table import Row, compared, unavailable

if TYPE_CHECKING:
    from pathlib import Path

    from bench.session import Session

FIRST_SECONDS_MAX = 60
IDLE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Started:
    seconds: float
    resident_mb: float


def first_acknowledged(bootstrap: str) -> None:
    """The client tries to connect every few milliseconds, so that its patience is not what is measured."""
    quiet = {"log_level": 0, "reconnect.backoff.ms": 5, "reconnect.backoff.max.ms": 20}
    refresh = {"retry.backoff.ms": 10, "topic.metadata.refresh.fast.interval.ms": 10}
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, **quiet, **refresh})
    failures: list[object] = []
    producer.produce("first", b"x", on_delivery=lambda error, _: failures.append(error) if error else None)
    if producer.flush(FIRST_SECONDS_MAX) or failures:
        raise UnavailableError(f"no first message: {failures}")


def started(session: Session, name: str, source: Path | None = None) -> Started:
    """Formatting Kafka's folder happens once in its life and is not counted."""
    directory = session.directory(f"start-{name}")
    began = time.perf_counter()
    if name == "kafka":
        peer = kafka.launch(directory)
    else:
        peer = penstock.launch(directory, flush="commit", source=source)
    try:
        first_acknowledged(peer.bootstrap)
        seconds = time.perf_counter() - began
        time.sleep(IDLE_SECONDS)  # what is measured is the idle server
        return Started(seconds, resident_bytes(peer.pid) / 1e6)
    finally:
        peer.stop()


def measure(session: Session) -> list[Row]:
    session.use()
    whats = ("start to first acknowledged message", "idle memory")
    target = targets.FOOTPRINT_VS_KAFKA
    ours: list[Started] = []
    theirs: list[Started] = []
    try:
        for _ in range(1 if session.quick else min(session.rounds, 3)):
            ours.append(started(session, "penstock"))
            theirs.append(started(session, "kafka"))
    except UnavailableError as error:
        return [unavailable(what, "Kafka", target, str(error)) for what in whats]
    seconds = [run.seconds for run in ours], [run.seconds for run in theirs]
    memory = [run.resident_mb for run in ours], [run.resident_mb for run in theirs]
    return [
        compared(whats[0], "Kafka", *seconds, "s", target),
        compared(whats[1], "Kafka", *memory, "MB", target),
    ]
