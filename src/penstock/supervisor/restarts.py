"""When to start which process again: pure.

A node that ends is started again after a delay. The delay is short after a node that has served for a while,
so that a crash costs little, and doubles with every end that follows too soon, so that a node which cannot
live does not take the machine from those that can. Its limit is low enough that nobody waits long for a node
whose trouble is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.supervisor.layout import Name


class Phase(StrEnum):
    DOWN = "down"
    STARTING = "starting"
    RUNNING = "running"


@dataclass(frozen=True, slots=True)
class BackOff:
    first_s: float = 0.2
    max_s: float = 5.0
    settled_s: float = 3.0
    """Who has served this long is well; its next end is the first again."""

    def delay(self, ends: int) -> float:
        """Before the start after so many ends in a row."""
        # The exponent is bounded so that a night of failures does not make a number beyond all floats.
        doublings = min(ends - 1, 32)
        return min(self.max_s, self.first_s * 2.0**doublings)


@dataclass(slots=True)
class _Watched:
    phase: Phase
    since: float
    back_off: BackOff
    ends: int = 0
    """In a row, without having been well in between."""
    start_at: float = 0.0


class Restarts:
    """Nodes and services as their supervisor sees them. Times are seconds of one monotonic clock."""

    def __init__(self, names: Iterable[Name], now: float, back_off: BackOff | None = None) -> None:
        self._back_off = back_off or BackOff()
        self._nodes = {name: _Watched(Phase.DOWN, now, self._back_off, start_at=now) for name in names}

    def phase(self, name: Name) -> Phase:
        return self._nodes[name].phase

    def due(self, now: float) -> list[Name]:
        """Who is to be started now."""
        return [
            name for name, node in self._nodes.items() if node.phase is Phase.DOWN and node.start_at <= now
        ]

    def started(self, name: Name, now: float) -> None:
        node = self._nodes[name]
        assert node.phase is Phase.DOWN, "a node is one process"
        node.phase, node.since = Phase.STARTING, now

    def ready(self, name: Name, now: float) -> None:
        node = self._nodes[name]
        assert node.phase is Phase.STARTING
        node.phase, node.since = Phase.RUNNING, now

    def ended(self, name: Name, now: float) -> float:
        """How long until it is started again."""
        node = self._nodes[name]
        was_well = node.phase is Phase.RUNNING and now - node.since >= node.back_off.settled_s
        node.ends = 1 if was_well else node.ends + 1
        delay = node.back_off.delay(node.ends)
        node.phase, node.since, node.start_at = Phase.DOWN, now, now + delay
        return delay

    def add(self, name: Name, now: float, back_off: BackOff | None = None) -> None:
        self._nodes[name] = _Watched(Phase.DOWN, now, back_off or self._back_off, start_at=now)

    def forget(self, name: Name) -> None:
        """It is not to be started any more."""
        del self._nodes[name]

    def not_running(self) -> dict[Name, Phase]:
        return {name: node.phase for name, node in self._nodes.items() if node.phase is not Phase.RUNNING}
