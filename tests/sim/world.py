"""A world from one seed: a clock that jumps from event to event, and a network that nobody can trust.

Messages are lost, delayed, doubled and reordered; links break one way or both. A seed is a history: running
it again gives the same one, with its trace. What is random in it comes from many streams, one for each link,
node and client, so that a history without one of its faults (see shrink.py) is otherwise much the same.
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
    delay_ms_max: int = 2
    straggling: float = 0.0
    """How likely a message comes as late as STRAGGLER_MS_MAX, long after it was given up and sent again."""


STRAGGLER_MS_MAX = 600


@dataclass(slots=True)
class Link:
    random: Callable[[], float]
    broken_until_ms: int = 0
    slow_until_ms: int = 0
    slow_ms_max: int = 0


@dataclass
class World:
    seed: int
    is_detailed: bool = False
    """Whether the trace says what every log goes through, too."""
    faults: Faults = field(default_factory=Faults)

    def __post_init__(self) -> None:
        self.now_ms = 0
        self.trace: list[str] = []
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._links: dict[tuple[int, int], Link] = {}

    def stream(self, name: str) -> Random:
        """Randomness for one purpose, from its beginning."""
        return Random(f"{self.seed} {name}")

    def note(self, line: str) -> None:
        self.trace.append(f"{self.now_ms:>7} {line}")

    def after(self, delay_ms: int, event: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now_ms + max(0, delay_ms), self._count, event))

    def run(self, until_ms: int) -> None:
        while self._events and self._events[0][0] <= until_ms:
            self.now_ms, _, event = heapq.heappop(self._events)
            event()
        self.now_ms = until_ms

    # Network

    def send(self, source: int, target: int, deliver: Callable[[], None], *, may_double: bool = True) -> None:
        link, faults = self._link(source, target), self.faults
        random = link.random
        is_lost, is_doubled = random() < faults.loss, random() < faults.duplication
        if is_lost or link.broken_until_ms > self.now_ms:
            return
        for _ in range(2 if is_doubled and may_double else 1):
            delay_ms_max = faults.delay_ms_max
            if random() < faults.straggling:
                delay_ms_max = STRAGGLER_MS_MAX
            elif link.slow_until_ms > self.now_ms:
                delay_ms_max = link.slow_ms_max
            self.after(1 + int(random() * delay_ms_max), deliver)

    def _link(self, source: int, target: int) -> Link:
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = Link(self.stream(f"{source} to {target}").random)
        return link

    def break_link(self, source: int, target: int, duration_ms: int) -> None:
        link = self._link(source, target)
        link.broken_until_ms = max(link.broken_until_ms, self.now_ms + duration_ms)

    def slow_down(self, source: int, target: int, delay_ms_max: int, duration_ms: int) -> None:
        """What is sent on this link may come long after it was sent again, or after its sender is gone."""
        link = self._link(source, target)
        link.slow_ms_max, link.slow_until_ms = delay_ms_max, self.now_ms + duration_ms

    def heal(self) -> None:
        self.faults = Faults()
        for link in self._links.values():
            link.broken_until_ms = link.slow_until_ms = 0
