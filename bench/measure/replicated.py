"""Produce to three brokers that all hold every message: throughput, and the CPU of the three per message."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Final

from bench import targets
from bench.measure.produce import SIZES, Produced
from bench.process import run_load
from bench.table import Row, compared, unavailable
from bench.topics import replicated_topic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.cluster import Cluster
    from bench.session import Session

NAMES: Final = ("penstock-cluster", "kafka-cluster")
AGAINST: Final = "Kafka, 3 brokers"
# Each broker leads one partition of three; the same on both sides.
PLACEMENTS: Final = {"1 partition": ((1, 2, 3),), "3 partitions": ((1, 2, 3), (2, 3, 1), (3, 1, 2))}
# Three copies of this are what the produce measurement writes once.
BYTES_MAX: Final = 200_000_000
SAME_SECONDS_MAX: Final = 20.0


def produce(session: Session, name: str, size: int, placement: Sequence[Sequence[int]]) -> Produced:
    cluster = session.cluster(name)
    with replicated_topic(session.unique("replicated"), cluster, placement) as topic:
        before = cluster.cpu_seconds()
        load = run_load(
            "kafka_produce",
            bootstrap=cluster.bootstrap,
            topic=topic,
            partitions=len(placement),
            size=size,
            count=BYTES_MAX // size,
            seconds=session.seconds,
        )
        cpu = cluster.cpu_seconds() - before
        check_replicated(cluster, topic, placement, load["messages"] * size)
    return Produced(load["messages"] / load["seconds"], cpu / load["messages"] * 1e6)


def check_replicated(
    cluster: Cluster, topic: str, placement: Sequence[Sequence[int]], bytes_min: int
) -> None:
    """All replicas stayed in sync, and all have the same: acks=all from fewer would be an easier task."""
    in_sync = cluster.in_sync(topic)
    if in_sync != [set(replicas) for replicas in placement]:
        raise RuntimeError(f"{cluster.name}: {topic} was in sync on {in_sync} only")
    deadline = time.monotonic() + SAME_SECONDS_MAX
    while True:
        sizes = cluster.log_bytes(topic, len(placement))
        if all(len(each) == 1 for each in sizes) and sum(map(sum, sizes)) >= bytes_min:
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"{cluster.name}: replicas of {topic} hold {sizes} bytes of {bytes_min}")
        time.sleep(0.05)


def measure(session: Session) -> list[Row]:
    up = session.use(*NAMES)
    target = targets.REPLICATED_VS_KAFKA
    if len(up) < len(NAMES):
        reason = " / ".join(session.missing[name] for name in NAMES if name in session.missing)
        return [unavailable("replicated produce", AGAINST, target, reason)]
    rows = []
    for spread, placement in PLACEMENTS.items():
        for label, size in SIZES.items():
            results = session.in_turn(up, partial(produce, session, size=size, placement=placement))
            ours, theirs = (results[name] for name in NAMES)
            rates = [each.rate for each in ours], [each.rate for each in theirs]
            cpu = [each.cpu_us for each in ours], [each.cpu_us for each in theirs]
            what = f"replicated produce {label}, {spread}, acks=all"
            rows.append(compared(what, AGAINST, *rates, "msg/s", target))
            what = f"CPU of 3 brokers per message, {label}, {spread}"
            rows.append(compared(what, AGAINST, *cpu, "µs", None))
    return rows
