"""The committed offsets of one group.

Only what is written can be fetched. `in_flight` counts the commits that are on their way to the log: a
tombstone that follows one of them must cover its partition too, and one that would follow it by the clock
alone (expiry) must not be written at all.

What a transaction commits is `pending` from when it is written until the transaction's marker is: it
becomes the group's offset then, or nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    """Set by clients before OffsetCommit 5 that asked for a retention of their own."""


class Offsets:
    def __init__(self) -> None:
        self.committed: dict[TopicPartition, CommittedOffset] = {}
        self.pending: dict[int, dict[TopicPartition, CommittedOffset]] = {}
        """By producer id, what its open transaction will commit."""
        self._in_flight: Counter[TopicPartition] = Counter()

    def is_empty(self) -> bool:
        return not self.committed and not self._in_flight and not self.pending

    def begin(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._in_flight[partition] += 1

    def finish(self, offsets: Mapping[TopicPartition, CommittedOffset], *, written: bool) -> None:
        for partition, offset in offsets.items():
            self._in_flight[partition] -= 1
            if not self._in_flight[partition]:
                del self._in_flight[partition]
            if written:
                self.committed[partition] = offset

    def prepare(self, producer_id: int, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        self.pending.setdefault(producer_id, {}).update(offsets)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        offsets = self.pending.pop(producer_id, {})
        if is_commit:
            self.committed.update(offsets)

    def is_unstable(self, partition: TopicPartition) -> bool:
        """An open transaction may replace its offset."""
        return any(partition in offsets for offsets in self.pending.values())

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self.committed.pop(partition, None)
            for offsets in self.pending.values():
                offsets.pop(partition, None)

    def known(self) -> list[TopicPartition]:
        """All partitions that have or will have an offset."""
        return sorted(self.committed.keys() | self._in_flight.keys() | self.unstable())

    def unstable(self) -> set[TopicPartition]:
        return {partition for offsets in self.pending.values() for partition in offsets}

    def expired(self, is_expired: Callable[[TopicPartition, CommittedOffset], bool]) -> list[TopicPartition]:
        on_their_way = self._in_flight.keys() | self.unstable()
        return sorted(
            partition
            for partition, offset in self.committed.items()
            if partition not in on_their_way and is_expired(partition, offset)
        )
