"""How long things took, for the cluster log: pure.

An event that ends something says how long that has lasted: a partition was without a leader, a broker was
fenced, its registration waited to count. What began before this node's log begins is not known, and not told.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.metadata.events import EventKind

if TYPE_CHECKING:
    from penstock.metadata.events import ClusterEvent


class Timeline:
    """Told of all events in their order, with the times of their batches."""

    def __init__(self) -> None:
        self._fenced_at_ms: dict[int, int] = {}
        self._registered_at_ms: dict[int, int] = {}
        self._leaderless_from_ms: dict[tuple[str | None, int | None], int] = {}

    def told(self, event: ClusterEvent, timestamp_ms: int) -> ClusterEvent:
        """The event, with how long what it ends has lasted."""
        match event.kind:
            case EventKind.BROKER_FENCED:
                self._fenced_at_ms.setdefault(event.nodes[0], timestamp_ms)
            case EventKind.BROKER_REGISTERED:
                self._registered_at_ms[event.nodes[0]] = timestamp_ms
            case EventKind.BROKER_UNFENCED:
                return self._unfenced(event, timestamp_ms)
            case EventKind.BROKER_UNREGISTERED:
                self._forget_broker(event.nodes[0])
            case EventKind.LEADER_LOST:
                self._leaderless_from_ms.setdefault((event.topic, event.partition), timestamp_ms)
            case EventKind.LEADER_ELECTED:
                began_ms = self._leaderless_from_ms.pop((event.topic, event.partition), None)
                if began_ms is not None:
                    lasted = seconds(timestamp_ms - began_ms)
                    return replace(event, text=f"{event.text}, after {lasted} without a leader")
            case EventKind.TOPIC_DELETED:
                for key in [key for key in self._leaderless_from_ms if key[0] == event.topic]:
                    del self._leaderless_from_ms[key]
        return event

    def _unfenced(self, event: ClusterEvent, timestamp_ms: int) -> ClusterEvent:
        registered_at_ms, fenced_at_ms = self._forget_broker(event.nodes[0])
        parts = []
        if registered_at_ms is not None:
            parts.append(f"{seconds(timestamp_ms - registered_at_ms)} after it registered")
        if fenced_at_ms is not None:
            parts.append(f"{seconds(timestamp_ms - fenced_at_ms)} after it was fenced")
        return replace(event, text=", ".join([event.text, " and ".join(parts)])) if parts else event

    def _forget_broker(self, broker_id: int) -> tuple[int | None, int | None]:
        return self._registered_at_ms.pop(broker_id, None), self._fenced_at_ms.pop(broker_id, None)


def seconds(duration_ms: float) -> str:
    """Clocks of different controllers may differ: nothing took less than no time."""
    return f"{max(0.0, duration_ms / 1000):.2f} s"
