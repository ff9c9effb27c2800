"""What groups still have to read, as consumed retention counts it. Pure.

A group's position is the offset that it has committed. One that a transaction is about to commit counts as
well, from when it is written: the transaction may have been decided long before its marker comes here. Of two
the lower counts. State that is kept in offsets without being a place to read from does not (see marks.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.groups.marks import is_position

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from penstock.groups.group import Group
    from penstock.groups.offsets import Offsets
    from penstock.types import TopicPartition

Positions = dict[str, dict[str, dict[int, int]]]
"""By topic, group and partition."""


def positions_of(groups: Iterable[Group], topics: Container[str]) -> Positions:
    """Where the groups stand in these topics."""
    found: Positions = {}
    for group in groups:
        for where, offset in _offsets_in(group.offsets):
            if where.topic in topics:
                add(found, where, group.group_id, offset)
    return found


def _offsets_in(offsets: Offsets) -> Iterable[tuple[TopicPartition, int]]:
    pending = [
        (where, each.offset) for prepared in offsets.pending.values() for where, each in prepared.items()
    ]
    for where, offset in (*offsets.committed.items(), *pending):
        if is_position(offset.metadata):
            yield where, offset.offset


def add(found: Positions, where: TopicPartition, group_id: str, offset: int) -> None:
    partitions = found.setdefault(where.topic, {}).setdefault(group_id, {})
    partitions[where.partition] = min(offset, partitions.get(where.partition, offset))
