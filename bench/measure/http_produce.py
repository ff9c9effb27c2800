"""Produce over HTTP, one message a request: the gateway beside a plain web application on PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench import targets
from bench.peers.http_queues import HttpPeer
from bench.process import run_load
from bench.table import Row, compared, unavailable

if TYPE_CHECKING:
    from bench.session import Session
    from bench.stats import Target

CONNECTIONS: Final = 32
TOPICS: Final = 8
SIZE: Final = 100
AGAINST: Final = "Flask + SQLAlchemy + PostgreSQL"
ON_FILES, ON_POSTGRES, PLAIN = "http-files", "http-postgres", "http-plain"
BARS: Final[dict[str, tuple[str, Target]]] = {
    ON_FILES: ("file log", targets.HTTP_FILES_VS_PLAIN),
    ON_POSTGRES: ("the same PostgreSQL", targets.HTTP_POSTGRES_VS_PLAIN),
}


def measure(session: Session) -> list[Row]:
    """All have it on disk when they answer."""
    up = session.use(ON_FILES, ON_POSTGRES)
    for name in (ON_FILES, ON_POSTGRES):
        if name not in up:
            what, target = BARS[name]
            return [unavailable(f"HTTP produce 100 B, {what}", AGAINST, target, session.missing[name])]

    def port(name: str) -> int:
        peer = session.peer(ON_POSTGRES if name == PLAIN else name)
        assert isinstance(peer, HttpPeer)
        found = peer.plain_port if name == PLAIN else peer.http_port
        assert found is not None
        return found

    def run(name: str) -> float:
        load = run_load(
            "http_produce",
            host="127.0.0.1",
            port=port(name),
            topic=session.unique("http"),
            topics=TOPICS,
            connections=CONNECTIONS,
            size=SIZE,
            seconds=session.seconds,
        )
        return float(load["messages"] / load["seconds"])

    rates = session.in_turn([ON_FILES, ON_POSTGRES, PLAIN], run)
    return [
        compared(f"HTTP produce 100 B, {what}", AGAINST, rates[name], rates[PLAIN], "msg/s", target)
        for name, (what, target) in BARS.items()
    ]
