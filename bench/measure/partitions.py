"""1,000 partitions beside 1: start-up, idle CPU, memory, open files, and produce spread over all of them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench import targets
from bench.peers import penstock
from bench.process import cpu_seconds, open_files, resident_bytes, run_load
from bench.table import Row, compared, reported

if TYPE_CHECKING:
    from bench.session import Session

MANY = 1_000
SIZE = 1_000
BATCH_COUNT = 1_000
TOPIC = "spread"


@dataclass(frozen=True, slots=True)
class Figures:
    rate: float
    start_seconds: float
    idle_cpu_share: float
    resident_mb: float
    open_files: int


def prepare(session: Session, partitions: int) -> tuple[Path, float]:
    """A data folder with that many partitions that hold some messages; and the seconds of a clean stop."""
    directory = session.directory(f"partitions-{partitions}")
    peer = penstock.start(directory, flush="os")
    try:
        admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 0})
        topic = NewTopic(TOPIC, num_partitions=partitions, replication_factor=1)
        admin.create_topics([topic], operation_timeout=60)[TOPIC].result(90)
        where = {"bootstrap": peer.bootstrap, "topic": TOPIC, "partitions": partitions}
        run_load("kafka_produce", **where, size=100, count=partitions * BATCH_COUNT, seconds=30)
    finally:
        began = time.perf_counter()
        peer.stop()
    return directory / "data", time.perf_counter() - began


def observe(session: Session, data: Path, partitions: int) -> Figures:
    began = time.perf_counter()
    peer = penstock.start(session.directory("node"), flush="os", data=data)
    start_seconds = time.perf_counter() - began
    try:
        idle_seconds = 2.0 if session.quick else 5.0
        before = cpu_seconds(peer.pid)
        time.sleep(idle_seconds)  # idle CPU is what the server uses while nothing happens
        idle = (cpu_seconds(peer.pid) - before) / idle_seconds
        where = {"bootstrap": peer.bootstrap, "topic": TOPIC, "partitions": partitions}
        # Each partition has been written to since the start: what is measured is the steady state.
        run_load("kafka_produce", **where, size=100, count=partitions * BATCH_COUNT, seconds=30)
        session.level_ground()
        load = run_load("kafka_produce", **where, size=SIZE, count=400_000, seconds=session.seconds)
        rate = load["messages"] / load["seconds"]
        return Figures(rate, start_seconds, idle, resident_bytes(peer.pid) / 1e6, open_files(peer.pid))
    finally:
        peer.stop()


def measure(session: Session) -> list[Row]:
    session.use()
    (one_data, one_stop), (many_data, many_stop) = prepare(session, 1), prepare(session, MANY)
    one: list[Figures] = []
    many: list[Figures] = []
    for _ in range(min(session.rounds, 3)):
        one.append(observe(session, one_data, 1))
        many.append(observe(session, many_data, MANY))
    what, against = f"{MANY:,} partitions", "itself with 1"
    rates = ([run.rate for run in many], [run.rate for run in one])
    starts = ([run.start_seconds for run in many], [run.start_seconds for run in one])
    last, first = many[-1], one[-1]
    return [
        compared(f"{what}: produce 1 KB spread over them", against, *rates, "msg/s", targets.NEAR_FLAT),
        compared(f"{what}: start", against, *starts, "s", None),
        reported(f"{what}: clean stop", f"{many_stop:.3g} s ({one_stop:.3g} s with 1)"),
        reported(
            f"{what}: idle CPU", f"{last.idle_cpu_share:.1%} of a core ({first.idle_cpu_share:.1%} with 1)"
        ),
        reported(f"{what}: memory", f"{last.resident_mb:,.0f} MB ({first.resident_mb:,.0f} MB with 1)"),
        reported(f"{what}: open files", f"{last.open_files:,} ({first.open_files:,} with 1)"),
    ]
