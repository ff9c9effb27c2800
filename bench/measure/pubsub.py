"""Publish and consume with the best Python client of each, with matching durability, 100-byte messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench import targets
from bench.process import run_load
from bench.table import Row, compared, unavailable
from bench.topics import fresh_topic

if TYPE_CHECKING:
    from bench.peers.base import Peer
    from bench.session import Session

SIZE: Final = 100
COUNT_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Pair:
    ours: str
    theirs: str
    label: str
    load: str
    bars: str


PAIRS: Final = (
    Pair("penstock-os", "redis-everysec", "Redis Streams everysec, redis-py", "redis_streams", "redis"),
    Pair("penstock-os", "nats", "NATS JetStream file, nats-py", "nats_jetstream", "nats"),
    Pair("penstock-commit", "redis-always", "Redis Streams always, redis-py", "redis_streams", "redis"),
    # RabbitMQ confirms a persistent message once it is on disk.
    Pair("penstock-commit", "rabbitmq", "RabbitMQ confirms, pika", "rabbitmq_queue", "rabbitmq"),
)


def exchange(session: Session, peer: Peer, load: str) -> tuple[float, float]:
    """Messages per second published, and consumed."""
    if load == "kafka":
        with fresh_topic(session, peer) as topic:
            where = {"bootstrap": peer.bootstrap, "topic": topic}
            sent = run_load("kafka_publish", **where, size=SIZE, count=COUNT_MAX, seconds=session.seconds)
            got = run_load("kafka_consume", **where, count=sent["messages"])
        return sent["messages"] / sent["seconds"], got["messages"] / got["seconds"]
    topic = session.unique("bench")
    both = run_load(load, port=peer.port, topic=topic, size=SIZE, count=COUNT_MAX, seconds=session.seconds)
    return both["published"] / both["publish_seconds"], both["consumed"] / both["consume_seconds"]


def measure(session: Session) -> list[Row]:
    """A quick run leaves out the pairs that fsync."""
    pairs = [pair for pair in PAIRS if not session.quick or pair.ours == "penstock-os"]
    return [row for pair in pairs for row in compare(session, pair)]


def compare(session: Session, pair: Pair) -> list[Row]:
    bars = (targets.PUBLISH_VS[pair.bars], targets.CONSUME_VS[pair.bars])
    flush = pair.ours.removeprefix("penstock-")
    whats = (f"publish 100 B, flush={flush}", f"consume 100 B, flush={flush}")
    up = session.use(pair.ours, pair.theirs)
    absent = [session.missing[name] for name in (pair.ours, pair.theirs) if name not in up]
    if absent:
        lines = zip(whats, bars, strict=True)
        return [unavailable(what, pair.label, bar, absent[0]) for what, bar in lines]
    loads = {session.peer(pair.ours).name: "kafka", session.peer(pair.theirs).name: pair.load}
    results = session.interleaved(up, lambda peer: exchange(session, peer, loads[peer.name]))
    rows = []
    for index, (what, bar) in enumerate(zip(whats, bars, strict=True)):
        ours, theirs = ([run[index] for run in results[name]] for name in (pair.ours, pair.theirs))
        rows.append(compared(what, pair.label, ours, theirs, "msg/s", bar))
    return rows
