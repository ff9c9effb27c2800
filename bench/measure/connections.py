"""2,000 idle connections held, beside none: what they cost a producer, and the server's memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bench import targets
from bench.measure.produce import produce
from bench.process import ROOT, resident_bytes
from bench.table import Row, compared, reported, unavailable

if TYPE_CHECKING:
    from bench.peers.base import Peer
    from bench.session import Session

COUNT = 2_000
SIZE = 1_000


@contextmanager
def held(peer: Peer) -> Iterator[None]:
    given = json.dumps({"port": peer.port, "count": COUNT})
    with subprocess.Popen(
        [sys.executable, "-m", "bench.load.idle_connections", given],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        if holder.stdout.readline().strip() != str(COUNT).encode():
            raise RuntimeError(f"{COUNT} connections could not be held")
        try:
            yield
        finally:
            holder.stdin.close()


def measure(session: Session) -> list[Row]:
    what = f"produce 1 KB with {COUNT:,} idle connections"
    if not session.use("penstock-os"):
        return [unavailable(what, "itself without", targets.NEAR_FLAT, session.missing["penstock-os"])]
    peer = session.peer("penstock-os")
    produce(session, peer, SIZE)
    without: list[float] = []
    along: list[float] = []
    grown: list[float] = []
    for _ in range(session.rounds):
        session.level_ground()
        without.append(produce(session, peer, SIZE).rate)
        session.level_ground()
        before = resident_bytes(peer.pid)
        with held(peer):
            grown.append((resident_bytes(peer.pid) - before) / COUNT / 1e3)
            along.append(produce(session, peer, SIZE).rate)
    return [
        compared(what, "itself without", along, without, "msg/s", targets.NEAR_FLAT),
        reported("memory per idle connection", f"{max(grown):.3g} KB"),
    ]
