"""A world from one seed: a clock that jumps from event to event, and a network that nobody can trust.

Messages are lost, delayed, doubled and reordered; links break one way or both. Everything random comes from
`World.random`, so that a seed is a history: running it again gives the same one, with its trace.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random


@dataclass
class Faults:
    """Probabilities per message, and how late one may come."""

    loss: float = 0.0
    duplication: float = 0.0
    delay_ms_max: int = 5
    straggling: float = 0.0
    """How likely a message comes as late as STRAGGLER_MS_MAX, long after it was given up and sent again."""


STRAGGLER_MS_MAX = 600


@dataclass
class World:
    seed: int
    faults: Faults = field(default_factory=Faults)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.now_ms = 0
        self.trace: list[str] = []
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._broken: set[tuple[int, int]] = set()
        self._slow: dict[tuple[int, int], int] = {}

    def note(self, line: str) -> None:
        self.trace.append(f"{self.now_ms:>7} {line}")

    def after(self, delay_ms: int, event: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now_ms + max(0, delay_ms), self._count, event))

    def send(self, source: int, target: int, deliver: Callable[[], None], *, may_double: bool = True) -> None:
        if (source, target) in self._broken or self.random.random() < self.faults.loss:
            return
        copies = 2 if may_double and self.random.random() < self.faults.duplication else 1
        for _ in range(copies):
            delay_ms_max = self._slow.get((source, target), self.faults.delay_ms_max)
            if self.random.random() < self.faults.straggling:
                delay_ms_max = STRAGGLER_MS_MAX
            self.after(self.random.randint(1, max(1, delay_ms_max)), deliver)

    def break_link(self, source: int, target: int) -> None:
        self._broken.add((source, target))

    def is_broken(self, source: int, target: int) -> bool:
        return (source, target) in self._broken

    def slow_down(self, source: int, target: int, delay_ms_max: int) -> None:
        """What is sent on this link may come long after it was sent again, or after its sender is gone."""
        self._slow[source, target] = delay_ms_max

    def heal(self) -> None:
        self._broken.clear()
        self._slow.clear()

    def run(self, until_ms: int) -> None:
        while self._events and self._events[0][0] <= until_ms:
            self.now_ms, _, event = heapq.heappop(self._events)
            event()
        self.now_ms = until_ms
