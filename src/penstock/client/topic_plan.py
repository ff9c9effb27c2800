"""What an application's topics are made of, and where their replicas go. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

REPLICATION_FACTOR_SETTING: Final = "default.replication.factor"
"""The setting of brokers that says how many replicas a topic has for which no number is given."""


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

    def assignment(self, brokers: Sequence[int], replication_factor: int) -> list[list[int]]:
        """The replicas of each partition, the leader first; one on each broker if there are too few brokers.

        Brokers place replicas themselves when they are told none, but each partition's leader elsewhere. So
        their `default.replication.factor` is asked for first.

        >>> TopicPlan("quadrant", 3, one_leader=True, number=3).assignment([1, 2, 3, 4], 3)
        [[4, 1, 2], [4, 1, 2], [4, 1, 2]]
        >>> TopicPlan("chunks", 3, number=3).assignment([1, 2, 3, 4], 2)
        [[4, 1], [1, 2], [2, 3]]
        """
        ordered = sorted(brokers)
        count = min(replication_factor, len(ordered))
        first = crc32(self.name.encode()) if self.number is None else self.number
        leaders = [first + (0 if self.one_leader else partition) for partition in range(self.partitions)]
        return [[ordered[(leader + step) % len(ordered)] for step in range(count)] for leader in leaders]
