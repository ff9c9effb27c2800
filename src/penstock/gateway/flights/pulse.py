"""How the service is, from its heartbeats. Pure.

A heartbeat counts from when it was seen: clocks of two machines need not agree. One that was on the topic
before anybody looked counts from when it says it was written, as nothing better is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.flights.records import Heartbeat, RecordError

SERVICE: Final = "flights"
LATE_MS: Final = 5_000
DOWN_MS: Final = 15_000
RUNNING: Final = "running"
LATE: Final = "late"
DOWN: Final = "down"
NOT_STARTED: Final = "not started"


@dataclass(frozen=True, slots=True)
class Beat:
    heartbeat: Heartbeat
    seen_ms: int

    def state(self, now_ms: int) -> str:
        age_ms = now_ms - self.seen_ms
        if age_ms > DOWN_MS:
            return DOWN
        return LATE if age_ms > LATE_MS else self.heartbeat.state

    def node(self, now_ms: int) -> dict[str, Any]:
        """As the state of the cluster lists it."""
        return {
            "id": SERVICE,
            "pid": self.heartbeat.pid,
            "state": self.state(now_ms),
            "roles": [SERVICE],
            "host": self.heartbeat.host,
            "heartbeat_ms": self.seen_ms,
        }


class Pulse:
    def __init__(self) -> None:
        self.last: Beat | None = None
        self.refused = 0

    def apply(self, key: bytes | None, value: bytes | None, now_ms: int, *, is_old: bool) -> None:
        """The next record of the topic; `is_old`: it was there before anybody looked."""
        if key != SERVICE.encode():
            self.refused += 1
            return
        if value is None:
            self.last = None
            return
        try:
            heartbeat = Heartbeat.from_json(value)
        except RecordError:
            self.refused += 1
            return
        self.last = Beat(heartbeat, min(heartbeat.at_ms, now_ms) if is_old else now_ms)

    def clear(self) -> None:
        self.last = None

    def state(self, now_ms: int) -> str:
        return NOT_STARTED if self.last is None else self.last.state(now_ms)

    @property
    def quotas(self) -> Mapping[str, int]:
        return self.last.heartbeat.limits if self.last is not None else {}


def with_heartbeats(told: dict[str, Any], beat: Beat | None, now_ms: int) -> dict[str, Any]:
    """The state of a cluster with what heartbeats add. Whoever asks a gateway has its heartbeat at once."""
    nodes: list[dict[str, Any]] = [dict(node) for node in told.get("nodes", [])]
    for node in nodes:
        if node["id"] == "gateway":
            node["heartbeat_ms"] = now_ms
        elif node["id"] == SERVICE and beat is not None and beat.heartbeat.pid == node["pid"]:
            node["heartbeat_ms"] = beat.seen_ms
            if node["state"] == RUNNING and beat.state(now_ms) in (LATE, DOWN):
                node["state"] = LATE  # its supervisor sees that the process lives
    if beat is not None and all(node["id"] != SERVICE for node in nodes):
        nodes.append(beat.node(now_ms))
    return {**told, "nodes": nodes} if nodes else told
