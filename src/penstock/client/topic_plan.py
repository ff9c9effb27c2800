"""What an application's topics are made of, and where their replicas go. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

REPLICAS: Final = 3
"""As many where there are as many brokers."""


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """What a topic is created with."""

    name: str
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)
    one_leader: bool = False
    """One broker leads all partitions; else one after the other does."""
    number: int | None = None
    """Picks the broker that leads first, in place of the name: topics that are to be spread count it up."""

    def assignment(self, brokers: Sequence[int]) -> list[list[int]]:
        """The replicas of each partition, the leader first.

        >>> TopicPlan("quadrant", 3, one_leader=True, number=3).assignment([1, 2, 3, 4])
        [[4, 1, 2], [4, 1, 2], [4, 1, 2]]
        >>> TopicPlan("chunks", 3, number=3).assignment([1, 2, 3, 4])
        [[4, 1, 2], [1, 2, 3], [2, 3, 4]]
        """
        ordered = sorted(brokers)
        count = min(REPLICAS, len(ordered))
        first = crc32(self.name.encode()) if self.number is None else self.number
        leaders = [first + (0 if self.one_leader else partition) for partition in range(self.partitions)]
        return [[ordered[(leader + step) % len(ordered)] for step in range(count)] for leader in leaders]
