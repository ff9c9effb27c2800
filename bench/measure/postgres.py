"""Logs in PostgreSQL: produce with librdkafka beside psql's COPY of the same bytes into the same server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import targets
from bench.peers.penstock_postgres import PostgresPeer
from bench.process import run_load
from bench.table import Row, compared, unavailable
from bench.topics import fresh_topic

if TYPE_CHECKING:
    from bench.session import Session

SIZE = 1_000
BYTES_MAX = 600_000_000
AGAINST = "psql COPY"


def measure(session: Session) -> list[Row]:
    """flush=commit: both have it on disk when they say so, the one at each commit, the other at its end."""
    what = "produce 1 KB, acks=all, storage in PostgreSQL"
    name = "penstock-postgres"
    if not session.use(name):
        return [unavailable(what, AGAINST, targets.POSTGRES_VS_COPY, session.missing[name])]
    peer = session.peer(name)
    assert isinstance(peer, PostgresPeer)

    def run(who: str) -> float:
        bounds = {"size": SIZE, "count": BYTES_MAX // SIZE, "seconds": session.seconds}
        if who == AGAINST:
            load = run_load("psql_copy", url=peer.url, programs=str(peer.programs), **bounds)
        else:
            with fresh_topic(session, peer) as topic:
                load = run_load("kafka_produce", bootstrap=peer.bootstrap, topic=topic, **bounds)
        return float(load["messages"] / load["seconds"])

    rates = session.in_turn([name, AGAINST], run)
    return [compared(what, AGAINST, rates[name], rates[AGAINST], "msg/s", targets.POSTGRES_VS_COPY)]
