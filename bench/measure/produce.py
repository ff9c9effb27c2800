"""Produce to one partition at full speed: throughput, and the server's CPU per message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from bench import targets
from bench.process import cpu_seconds, run_load
from bench.table import Row, compared, reported, unavailable
from bench.topics import FLUSH_EACH, fresh_topic

if TYPE_CHECKING:
    from bench.peers.base import Peer
    from bench.session import Session
    from bench.stats import Target

SIZES = {"1 KB": 1_000, "100 B": 100}
BYTES_MAX = 600_000_000


@dataclass(frozen=True, slots=True)
class Produced:
    rate: float
    """Messages per second."""
    cpu_us: float
    """Server CPU per message."""


def produce(session: Session, peer: Peer, size: int, config: Mapping[str, str] | None = None) -> Produced:
    with fresh_topic(session, peer, config=config) as topic:
        before = cpu_seconds(peer.pid)
        load = run_load(
            "kafka_produce",
            bootstrap=peer.bootstrap,
            topic=topic,
            size=size,
            count=min(10_000_000, BYTES_MAX // size),
            seconds=session.seconds,
        )
        cpu = cpu_seconds(peer.pid) - before
    return Produced(load["messages"] / load["seconds"], cpu / load["messages"] * 1e6)


def measure_os(session: Session) -> list[Row]:
    """flush=os: against the sink that is the floor, and against Kafka with its defaults."""
    up = session.use("penstock-os", "sink", "kafka")
    rows = []
    for label, size in SIZES.items():
        what = f"produce {label}, acks=all, flush=os"
        results = session.interleaved(up, partial(produce, session, size=size))
        rates = {name: [run.rate for run in runs] for name, runs in results.items()}
        cpu = {name: [run.cpu_us for run in runs] for name, runs in results.items()}
        rows += _against(session, what, "sink", "raw sink", rates, targets.PRODUCE_VS_SINK)
        rows += _against(session, what, "kafka", "Kafka", rates, targets.PRODUCE_VS_KAFKA)
        what = f"server CPU per message, {label}"
        rows += _against(session, what, "sink", "raw sink", cpu, targets.CPU_VS_SINK, unit="µs")
        rows += _against(session, what, "kafka", "Kafka", cpu, None, unit="µs")
        if "sink" in rates:
            most = max(rates["sink"])
            figure = f"{most:,.0f} msg/s, {most * size / 1e6:,.0f} MB/s"
            rows.append(reported(f"load generator, {label}", figure, note="its best against the raw sink"))
    return rows


def measure_commit(session: Session) -> list[Row]:
    """flush=commit beside Kafka made to fsync each message batch before it answers."""
    up = session.use("penstock-commit", "kafka")
    rows = []
    for label, size in SIZES.items():

        def run(peer: Peer, size: int = size) -> float:
            config = FLUSH_EACH if peer.name == "Kafka" else None
            return produce(session, peer, size, config).rate

        rates = session.interleaved(up, run)
        what = f"produce {label}, acks=all, flush=commit"
        target = targets.PRODUCE_COMMIT_VS_KAFKA
        against = "Kafka, flush.messages=1"
        rows += _against(session, what, "kafka", against, rates, target, ours="penstock-commit")
    return rows


def _against(
    session: Session,
    what: str,
    peer: str,
    against: str,
    figures: Mapping[str, list[float]],
    target: Target | None,
    *,
    unit: str = "msg/s",
    ours: str = "penstock-os",
) -> list[Row]:
    for name in (ours, peer):
        if name not in figures:
            return [unavailable(what, against, target, session.missing[name])]
    return [compared(what, against, figures[ours], figures[peer], unit, target)]
