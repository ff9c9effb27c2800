"""End-to-end latency at a rate that is a small part of what either side can take.

Every message travels in a request of its own here, which costs a server far more than the same message in a
batch; a tenth of the batched rate would be an overload, so the rate is fixed and low.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bench import targets
from bench.process import run_load
from bench.stats import median
from bench.table import Row, compared, unavailable
from bench.topics import fresh_topic

if TYPE_CHECKING:
    from bench.peers.base import Peer
    from bench.session import Session

SIZE: Final = 1_000
RATE: Final = 500
WARM_UP_SECONDS: Final = 8.0
# A generator later than this measured itself, or a machine that was busy with something else.
LATE_MS_MAX: Final = 1.0


def run(session: Session, peer: Peer, seconds: float) -> dict[str, Any]:
    with fresh_topic(session, peer) as topic:
        where = {"bootstrap": peer.bootstrap, "topic": topic}
        return run_load("kafka_latency", **where, size=SIZE, rate=RATE, seconds=seconds)


def measure(session: Session) -> list[Row]:
    what, target = f"end-to-end latency, 1 KB, {RATE} msg/s", targets.LATENCY_VS_KAFKA
    names = ("penstock-os", "kafka")
    up = session.use(*names)
    if len(up) < len(names):
        return [unavailable(what, "Kafka", target, " / ".join(session.missing.values()))]
    # A cold JVM answers in seconds: what is compared is a server that has been up for a while.
    for name in up:
        run(session, session.peer(name), WARM_UP_SECONDS)
    results = session.interleaved(up, lambda peer: run(session, peer, max(2.0, session.seconds * 2)))
    ours, theirs = results["penstock-os"], results["kafka"]
    late = max(median([each["late_p50_ms"] for each in runs]) for runs in (ours, theirs))
    note = f"not judged: load generator {late:.1f} ms late" if late > LATE_MS_MAX else ""
    rows = []
    for key, name, judged in (("p50_ms", "p50", None if note else target), ("p99_ms", "p99", None)):
        figures = [each[key] for each in ours], [each[key] for each in theirs]
        rows.append(compared(f"{what}: {name}", "Kafka", *figures, "ms", judged, note=note))
    return rows
