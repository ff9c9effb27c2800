"""Which brokers hold the replicas of new partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.metadata.image import BrokerImage


def place(
    brokers: Sequence[BrokerImage], *, partitions: int, replication_factor: int, start: int
) -> list[tuple[int, ...]]:
    """The replicas of each of `partitions` new partitions, preferred leader first.

    Leaders go round robin over the brokers from position `start`. The followers come after their leader,
    with a gap that grows by one each time round, so that the partitions of one leader do not all have the
    same followers and its load spreads over many when it fails.
    """
    assert 1 <= replication_factor <= len(brokers)
    ids = [broker.id for broker in brokers]
    count = len(ids)
    placed = []
    for position in range(start, start + partitions):
        leader = position % count
        gap = (position // count) % (count - 1) if count > 1 else 0
        followers = (
            (leader + 1 + (gap + step) % (count - 1)) % count for step in range(replication_factor - 1)
        )
        placed.append((ids[leader], *(ids[index] for index in followers)))
    return placed
