"""Consume one partition from its start, right after it was filled."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench import targets
from bench.measure.produce import SIZES
from bench.process import run_load
from bench.table import Row, compared, unavailable
from bench.topics import fresh_topic

if TYPE_CHECKING:
    from bench.peers.base import Peer
    from bench.session import Session

BYTES = 200_000_000
COUNT_MAX = 1_000_000


def consume(session: Session, peer: Peer, size: int) -> float:
    count = min(COUNT_MAX, BYTES // size) // (4 if session.quick else 1)
    with fresh_topic(session, peer) as topic:
        where = {"bootstrap": peer.bootstrap, "topic": topic}
        filled = run_load("kafka_produce", **where, size=size, count=count, seconds=60)
        load = run_load("kafka_consume", **where, count=filled["messages"])
    return float(load["messages"] / load["seconds"])


def measure(session: Session) -> list[Row]:
    names = ("penstock-os", "kafka")
    up = session.use(*names)
    rows = []
    for label, size in SIZES.items():
        what, target = f"consume {label} from the start", targets.CONSUME_VS_KAFKA
        if len(up) < len(names):
            rows.append(unavailable(what, "Kafka", target, " / ".join(session.missing.values())))
            continue
        rates = session.interleaved(up, partial(consume, session, size=size))
        rows.append(compared(what, "Kafka", rates["penstock-os"], rates["kafka"], "msg/s", target))
    return rows
