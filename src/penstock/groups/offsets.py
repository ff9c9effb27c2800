"""The committed offsets of one group.

Only what is written can be fetched. `in_flight` counts the commits that are on their way to the log: a
tombstone that follows one of them must cover its partition too, and one that would follow it by the clock
alone (expiry) must not be written at all.

What a transaction commits is `pending` from when it is written until the transaction's marker is: it
becomes the group's offset then, or nothing. Of several commits the one that was written last counts, whenever
the markers come, for that is the one that compaction leaves in the log.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import count
from math import inf
from typing import TYPE_CHECKING, NamedTuple

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


class Prepared(NamedTuple):
    offset: CommittedOffset
    number: int
    """Greater than that of all that were written before."""


class Offsets:
    def __init__(self) -> None:
        self.committed: dict[TopicPartition, CommittedOffset] = {}
        self.pending: dict[int, dict[TopicPartition, Prepared]] = {}
        """By producer id, what its open transaction will commit, unless something else is by then."""
        self._numbers = count()
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
                self.commit(partition, offset)

    def commit(self, partition: TopicPartition, offset: CommittedOffset) -> None:
        """Take an offset that was written now, by no transaction."""
        self.remove((partition,))
        self.committed[partition] = offset

    def prepare(self, producer_id: int, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        number = next(self._numbers)
        prepared = {partition: Prepared(offset, number) for partition, offset in offsets.items()}
        self.pending.setdefault(producer_id, {}).update(prepared)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        offsets = self.pending.pop(producer_id, {})
        if is_commit:
            for partition, prepared in offsets.items():
                self._forget_pending(partition, before=prepared.number)
                self.committed[partition] = prepared.offset

    def _forget_pending(self, partition: TopicPartition, before: float) -> None:
        for offsets in self.pending.values():
            if partition in offsets and offsets[partition].number < before:
                del offsets[partition]

    def is_unstable(self, partition: TopicPartition) -> bool:
        """An open transaction may replace its offset."""
        return any(partition in offsets for offsets in self.pending.values())

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self.committed.pop(partition, None)
            self._forget_pending(partition, before=inf)

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
