"""Which brokers hold the replicas of new partitions.

No two replicas of a partition are in one rack while there are enough racks, as with Kafka. Brokers without a
rack are together in one of their own, so that nothing changes for a cluster that has none.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.metadata.image import BrokerImage


def place(
    brokers: Sequence[BrokerImage], *, partitions: int, replication_factor: int, start: int
) -> list[tuple[int, ...]]:
    """The replicas of each of `partitions` new partitions, preferred leader first.

    Leaders go round robin over the brokers `in_turn` from position `start`. The followers come after their
    leader, with a gap that grows by one each time round, so that the partitions of one leader do not all have
    the same followers and its load spreads over many when it fails. Of those that come after it, the first in
    a rack that has least of the partition is next.
    """
    assert 1 <= replication_factor <= len(brokers)
    taking_turns = in_turn(brokers)
    count = len(taking_turns)
    placed = []
    for position in range(start, start + partitions):
        leader = position % count
        gap = (position // count) % (count - 1) if count > 1 else 0
        after = [taking_turns[(leader + 1 + (gap + step) % (count - 1)) % count] for step in range(count - 1)]
        chosen = [taking_turns[leader]]
        held = Counter([taking_turns[leader].rack])
        while len(chosen) < replication_factor:
            follower = min(after, key=lambda each: held[each.rack])
            after.remove(follower)
            chosen.append(follower)
            held[follower.rack] += 1
        placed.append(tuple(broker.id for broker in chosen))
    return placed


def in_turn(brokers: Sequence[BrokerImage]) -> list[BrokerImage]:
    """One of each rack, then another one of each, so that leaders in a row are in different racks."""
    racks = list(dict.fromkeys(broker.rack for broker in brokers))
    taken: Counter[str | None] = Counter()
    turns = []
    for position, broker in enumerate(brokers):
        turns.append((taken[broker.rack], racks.index(broker.rack), position))
        taken[broker.rack] += 1
    return [brokers[position] for _, _, position in sorted(turns)]
