"""A checker of histories: what clients of a partitioned log were told, and whether one log can explain it.

The kinds of anomaly are those of Jepsen's Kafka test. Whoever records a history writes each value once, and
numbers nothing else: which offset holds which value follows from the acknowledgements and from what readers
were given. The checker knows no cluster and no clock; times are numbers that only need to grow.
"""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import NamedTuple


class Outcome(enum.Enum):
    OK = "ok"
    UNKNOWN = "unknown"
    """It may have happened, or may happen yet."""
    FAILED = "failed"
    """It did not happen, and never will."""


class Send(NamedTuple):
    """One value of a writer. The sends of a writer are recorded in the order in which it sent them."""

    writer: str
    partition: int
    value: str
    outcome: Outcome
    offset: int | None = None
    """With OK."""


class Poll(NamedTuple):
    """What a reader was given at once. Who is assigned a partition anew is another reader."""

    reader: str
    partition: int
    records: tuple[tuple[int, str], ...]
    """(offset, value)"""


class Commit(NamedTuple):
    """A group's attempt to commit an offset."""

    partition: int
    offset: int
    outcome: Outcome
    began: float
    ended: float


class Committed(NamedTuple):
    """The committed offset of a group, as somebody was told; 0 if there was none."""

    partition: int
    offset: int
    began: float
    ended: float


@dataclass
class History:
    sends: list[Send] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    committed: list[Committed] = field(default_factory=list)
    complete: set[str] = field(default_factory=set)
    """Readers that began at the start and read on until everything was written."""


class Kind(enum.Enum):
    LOST = "lost write"
    UNSEEN = "unseen write"
    DUPLICATE = "duplicate"
    REORDERED = "reordered"
    INCONSISTENT = "inconsistent offset"
    ABORTED_READ = "aborted read"
    PHANTOM = "phantom"
    NON_MONOTONIC_POLL = "non-monotonic poll"
    SKIPPED_POLL = "skipped poll"
    COMMITTED_WENT_BACK = "committed offset went back"
    PHANTOM_COMMIT = "phantom commit"


class Anomaly(NamedTuple):
    kind: Kind
    partition: int
    text: str

    def __str__(self) -> str:
        return f"{self.kind.value} in partition {self.partition}: {self.text}"


def check(history: History) -> list[Anomaly]:
    """All that no log could explain; empty if the history is as it should be."""
    partitions = {each.partition for each in (*history.sends, *history.polls)}
    groups = {each.partition for each in (*history.commits, *history.committed)}
    return [
        *(anomaly for index in sorted(partitions) for anomaly in _PartitionChecker(history, index).check()),
        *(anomaly for index in sorted(groups) for anomaly in _check_commits(history, index)),
    ]


def summary(anomalies: Iterable[Anomaly], each_max: int = 5) -> str:
    """How many of each kind, and the first of them."""
    found = list(anomalies)
    lines = [f"{count} × {kind.value}" for kind, count in Counter(each.kind for each in found).items()]
    for kind in Kind:
        lines += [str(each) for each in found if each.kind is kind][:each_max]
    return "\n".join(lines)


class _PartitionChecker:
    def __init__(self, history: History, partition: int) -> None:
        self._partition = partition
        self._sends = [each for each in history.sends if each.partition == partition]
        self._polls: dict[str, list[tuple[int, str]]] = defaultdict(list)
        self._complete = history.complete
        for poll in history.polls:
            if poll.partition == partition:
                self._polls[poll.reader] += poll.records
        self._acknowledged = {
            each.value: each.offset
            for each in self._sends
            if each.outcome is Outcome.OK and each.offset is not None
        }
        self._values_at: dict[int, set[str]] = defaultdict(set)
        self._offsets_of: dict[str, set[int]] = defaultdict(set)
        """By readers alone: an acknowledgement with a wrong offset makes no second copy."""
        for value, offset in self._acknowledged.items():
            self._values_at[offset].add(value)
        for records in self._polls.values():
            for offset, value in records:
                self._values_at[offset].add(value)
                self._offsets_of[value].add(offset)
        self._known = sorted(self._values_at)

    def check(self) -> Iterator[Anomaly]:
        yield from self._check_values()
        yield from self._check_order()
        for reader, records in sorted(self._polls.items()):
            yield from self._check_positions(reader, records)
        for reader in sorted(self._complete):
            yield from self._check_complete(reader)

    def _found(self, kind: Kind, text: str) -> Anomaly:
        return Anomaly(kind, self._partition, text)

    def _check_values(self) -> Iterator[Anomaly]:
        for offset in self._known:
            values = self._values_at[offset]
            if len(values) > 1:
                yield self._found(Kind.INCONSISTENT, f"offset {offset} holds {sorted(values)}")
        sends = {each.value: each for each in self._sends}
        for value, offsets in self._offsets_of.items():
            if len(offsets) > 1:
                yield self._found(Kind.DUPLICATE, f"{value} is at offsets {sorted(offsets)}")
            send = sends.get(value)
            if send is None:
                yield self._found(Kind.PHANTOM, f"{value} at {min(offsets)} was never sent here")
            elif send.outcome is Outcome.FAILED:
                yield self._found(Kind.ABORTED_READ, f"{value} at {min(offsets)} had failed for good")

    def _check_order(self) -> Iterator[Anomaly]:
        """The values of a writer are stored as it sent them."""
        newest: dict[str, tuple[int, str]] = {}
        for send in self._sends:
            offsets = self._offsets_of.get(send.value)
            if not offsets:
                continue
            offset = min(offsets)
            before = newest.get(send.writer)
            if before is not None and offset < before[0]:
                yield self._found(
                    Kind.REORDERED,
                    f"{send.value} at {offset} was sent after {before[1]}, which is at {before[0]}",
                )
            newest[send.writer] = max(before or (-1, ""), (offset, send.value))

    def _check_positions(self, reader: str, records: list[tuple[int, str]]) -> Iterator[Anomaly]:
        offsets = [offset for offset, _ in records]
        if reader in self._complete:
            offsets.insert(0, -1)
        for before, after in pairwise(offsets):
            if after <= before:
                yield self._found(Kind.NON_MONOTONIC_POLL, f"{reader} got {after} after {before}")
                continue
            skipped = self._known[bisect_left(self._known, before + 1) : bisect_left(self._known, after)]
            if skipped:
                yield self._found(
                    Kind.SKIPPED_POLL,
                    f"{reader} got {after} after {before} and not {skipped[0]},"
                    f" where {sorted(self._values_at[skipped[0]])} is",
                )

    def _check_complete(self, reader: str) -> Iterator[Anomaly]:
        """Whatever was acknowledged, or given to any reader, is there for those who read to the end."""
        records = self._polls.get(reader, [])
        values = {value for _, value in records}
        end_offset = max((offset for offset, _ in records), default=-1) + 1
        for offset in self._known:
            for value in sorted(self._values_at[offset] - values):
                promise = "was acknowledged" if value in self._acknowledged else "was seen"
                text = f"{value} {promise} at {offset}, {reader} has read to {end_offset} without it"
                yield self._found(Kind.LOST if offset < end_offset else Kind.UNSEEN, text)


def _check_commits(history: History, partition: int) -> Iterator[Anomaly]:
    """Once told that an offset is committed, nobody is told of a lower one by an answer asked for later."""
    commits = [each for each in history.commits if each.partition == partition]
    agreed = [each for each in commits if each.outcome is Outcome.OK]
    told = [each for each in history.committed if each.partition == partition]
    known = sorted((each.ended, each.offset) for each in (*agreed, *told))
    ends = [ended for ended, _ in known]
    highest = list(accumulate((offset for _, offset in known), max))
    for each in (*agreed, *told):
        place = bisect_left(ends, each.began)
        if place and each.offset < highest[place - 1]:
            act = "committed" if isinstance(each, Commit) else "read"
            yield Anomaly(
                Kind.COMMITTED_WENT_BACK,
                partition,
                f"{each.offset} {act} from {each.began:.3f} to {each.ended:.3f},"
                f" after {highest[place - 1]} before {each.began:.3f}",
            )
    tried = {each.offset for each in commits if each.outcome is not Outcome.FAILED} | {0}
    for each in told:
        if each.offset not in tried:
            yield Anomaly(Kind.PHANTOM_COMMIT, partition, f"{each.offset} was read, and never committed")
