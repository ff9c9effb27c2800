"""What goes wrong in a history, decided before it begins.

A fault is a moment, a kind and a seed of its own: whom it strikes may depend on what is there to be struck,
but not on how many faults came before. It ends by itself (a link heals, a process starts again), so that any
part of a plan is a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Fault:
    number: int
    """In the plan of its seed."""
    at_ms: int
    kind: str
    seed: int

    @property
    def random(self) -> Random:
        return Random(self.seed)

    def __str__(self) -> str:
        return f"{self.at_ms:>7} {self.kind} (fault {self.number})"


class Plan:
    def __init__(self, random: Random) -> None:
        self._random = random
        self.faults: list[Fault] = []

    def add(self, at_ms: int, kind: str) -> None:
        self.faults.append(Fault(len(self.faults), at_ms, kind, self._random.getrandbits(32)))

    def maybe_add(self, at_ms: int, kind: str, likelihood: float) -> None:
        if self._random.random() < likelihood:
            self.add(at_ms, kind)

    def scatter(self, kinds: Sequence[str], start_ms: int, end_ms: int, pause_ms: tuple[int, int]) -> None:
        """One fault after the other, of these kinds, with pauses between the two limits."""
        at_ms = start_ms
        while at_ms < end_ms:
            self.add(at_ms, self._random.choice(kinds))
            at_ms += self._random.randint(*pause_ms)
