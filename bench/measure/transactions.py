"""What exactly once costs: transactions against none on the same broker, and against Kafka's; single puts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench import targets
from bench.process import run_load
from bench.stats import median
from bench.table import Row, compared, reported, unavailable
from bench.topics import fresh_topic

if TYPE_CHECKING:
    from bench.session import Session

SIZE: Final = 1_000
CHUNK: Final = 1_000
COUNT: Final = 100_000
PUTS: Final = 400
OURS, KAFKA = "penstock-os", "kafka"


def copy(session: Session, name: str, *, transactional: bool) -> float:
    peer = session.peer(name)
    count = COUNT // (4 if session.quick else 1)
    with fresh_topic(session, peer) as source, fresh_topic(session, peer) as sink:
        filled = count + CHUNK  # the first chunk does not count
        run_load("kafka_produce", bootstrap=peer.bootstrap, topic=source, size=SIZE, count=filled, seconds=60)
        load = run_load(
            "kafka_copy",
            bootstrap=peer.bootstrap,
            source=source,
            sink=sink,
            group=session.unique("copy"),
            chunk=CHUNK,
            count=count,
            transactional=transactional,
        )
    return float(load["messages"] / load["seconds"])


def measure(session: Session) -> list[Row]:
    up = session.use(OURS, KAFKA)
    ways = [(name, transactional) for name in up for transactional in (False, True)]
    labels = {f"{name} {transactional}": (name, transactional) for name, transactional in ways}
    results = session.in_turn(
        list(labels), lambda label: copy(session, labels[label][0], transactional=labels[label][1])
    )
    what = f"consume-transform-produce 1 KB, {CHUNK:,} records per transaction"
    plain, ours = results[f"{OURS} False"], results[f"{OURS} True"]
    rows = [compared(what, "itself, no transactions", ours, plain, "msg/s", targets.TRANSACTIONS_VS_NONE)]
    if KAFKA in up:
        theirs, their_plain = results[f"{KAFKA} True"], results[f"{KAFKA} False"]
        rows.append(compared(what, "Kafka", ours, theirs, "msg/s", None))
        rows.append(compared("the same without transactions", "Kafka", plain, their_plain, "msg/s", None))
    else:
        rows.append(unavailable(what, "Kafka", None, session.missing[KAFKA]))
    return [*rows, *puts(session)]


def puts(session: Session) -> list[Row]:
    rows = []
    for name in (OURS, "penstock-commit"):
        session.use(name)
        results = session.in_turn([name], lambda name: put_and_get(session, name))[name]
        for what in ("put", "get"):
            p50, p99 = (median([each[f"{what}_{p}_ms"] for each in results]) for p in ("p50", "p99"))
            flush = name.removeprefix("penstock-")
            rows.append(
                reported(f"single {what}, flush={flush}: p50 and p99", f"{p50:.1f} ms and {p99:.1f} ms")
            )
    return rows


def put_and_get(session: Session, name: str) -> dict[str, float]:
    peer = session.peer(name)
    with fresh_topic(session, peer) as topic:
        found: dict[str, float] = run_load(
            "publish_get", bootstrap=peer.bootstrap, topic=topic, size=100, count=PUTS
        )
    return found
