"""When a WebSocket follower sees a message: the time from its acknowledgement, through broker and gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bench import targets
from bench.peers.http_queues import HttpPeer
from bench.process import run_load
from bench.table import Row, compared, unavailable
from bench.topics import fresh_topic

if TYPE_CHECKING:
    from bench.session import Session

PEER: Final = "http-files"
SIZE: Final = 1_000
RATE: Final = 200
LIMIT_MS: Final = 50.0
OTHERS: Final = 10
"""Followers beside the one whose times count."""


def run(session: Session, peer: HttpPeer, seconds: float) -> dict[str, Any]:
    with fresh_topic(session, peer) as topic:
        where = {"bootstrap": peer.bootstrap, "http_port": peer.http_port, "topic": topic}
        return run_load("websocket_latency", **where, size=SIZE, rate=RATE, seconds=seconds, others=OTHERS)


def measure(session: Session) -> list[Row]:
    what = f"WebSocket follower after acknowledgement, 1 KB, {RATE} msg/s, {OTHERS + 1} followers"
    target = targets.WEBSOCKET_VS_LIMIT
    if not session.use(PEER):
        return [unavailable(what, "50 ms", target, session.missing[PEER])]
    peer = session.peer(PEER)
    assert isinstance(peer, HttpPeer)
    runs = session.in_turn([PEER], lambda _: run(session, peer, max(2.0, session.seconds * 2)))
    rows = []
    for key, name, judged in (("p50_ms", "p50", target), ("p99_ms", "p99", None)):
        figures = [each[key] for each in runs[PEER]]
        rows.append(compared(f"{what}: {name}", "50 ms", figures, [LIMIT_MS] * len(figures), "ms", judged))
    return rows
