"""A checker of transactions: what writers were told, what readers of committed data were given, and whether
transactions can explain it.

What concerns one partition alone (lost, doubled, reordered, from nowhere, aborted and read) is the business
of history.py. Here are the anomalies between partitions, and in time:

torn           some values of a transaction are in the log and others are not
read too soon  somebody was given a value before its writer had asked for the commit
copied wrong   a consume-process-produce loop did not turn each input into one output, in order

Times are numbers of one clock that only need to grow.
"""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from tests.support.history import History, Outcome, Poll, Send, check


class Written(NamedTuple):
    partition: int
    value: str
    offset: int | None = None
    """If it was acknowledged."""


@dataclass
class Transaction:
    """One attempt of a writer. FAILED until its commit is asked for: from there on it may have happened."""

    writer: str
    writes: list[Written] = field(default_factory=list)
    outcome: Outcome = Outcome.FAILED
    commit_asked_at: float | None = None


class Seen(NamedTuple):
    """What a reader of committed data was given at once."""

    reader: str
    partition: int
    records: tuple[tuple[int, str], ...]
    """(offset, value)"""
    at: float


@dataclass
class TransactionHistory:
    transactions: list[Transaction] = field(default_factory=list)
    """In the order of each writer."""
    seen: list[Seen] = field(default_factory=list)
    complete: set[str] = field(default_factory=set)
    """Readers that began at the start and read on until every transaction was over."""


class TransactionKind(enum.Enum):
    TORN = "torn transaction"
    TOO_SOON = "read too soon"
    COPIED_WRONG = "copied wrong"


class TransactionAnomaly(NamedTuple):
    kind: TransactionKind
    text: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.text}"


def check_transactions(history: TransactionHistory) -> list[object]:
    """All anomalies, those of single partitions first."""
    return [*check(by_partition(history)), *_torn(history), *_too_soon(history)]


def by_partition(history: TransactionHistory) -> History:
    """An acknowledgement is a promise only together with that of its transaction."""
    return History(
        sends=[
            Send(
                transaction.writer,
                write.partition,
                write.value,
                transaction.outcome,
                write.offset if transaction.outcome is Outcome.OK else None,
            )
            for transaction in history.transactions
            for write in transaction.writes
        ],
        polls=[Poll(each.reader, each.partition, each.records) for each in history.seen],
        complete=history.complete,
    )


def _torn(history: TransactionHistory) -> Iterator[TransactionAnomaly]:
    found = {value for each in history.seen if each.reader in history.complete for _, value in each.records}
    for transaction in history.transactions:
        values = {write.value for write in transaction.writes}
        missing = values - found
        if missing and missing != values:
            yield TransactionAnomaly(
                TransactionKind.TORN,
                f"{transaction.writer} ({transaction.outcome.value}): {sorted(values - missing)} without"
                f" {sorted(missing)}",
            )


def _too_soon(history: TransactionHistory) -> Iterator[TransactionAnomaly]:
    asked_at = {
        write.value: transaction.commit_asked_at
        for transaction in history.transactions
        for write in transaction.writes
    }
    for seen in history.seen:
        for offset, value in seen.records:
            at = asked_at.get(value)
            if value in asked_at and (at is None or seen.at < at):
                asked = "no commit was asked for" if at is None else f"its commit was asked for at {at:.3f}"
                yield TransactionAnomaly(
                    TransactionKind.TOO_SOON, f"{seen.reader} got {value} at {offset}, {seen.at:.3f}; {asked}"
                )


def check_copy(source: Sequence[str], copied: Sequence[str]) -> list[TransactionAnomaly]:
    """Every input has become one output, and the outputs are in the order of the inputs."""

    def found(text: str) -> TransactionAnomaly:
        return TransactionAnomaly(TransactionKind.COPIED_WRONG, text)

    counts = Counter(copied)
    places = {value: place for place, value in enumerate(source)}
    return [
        *(found(f"{value} was left out") for value in source if value not in counts),
        *(found(f"{value} came {count} times") for value, count in counts.items() if count > 1),
        *(found(f"{value} came from nowhere") for value in counts if value not in places),
        *(
            found(f"{after} came after {before}")
            for before, after in pairwise(value for value in copied if value in places)
            if places[after] < places[before]
        ),
    ]


def values_of(history: TransactionHistory, reader: str) -> dict[int, list[str]]:
    """What a reader was given, by partition."""
    values: dict[int, list[str]] = defaultdict(list)
    for each in history.seen:
        if each.reader == reader:
            values[each.partition] += [value for _, value in each.records]
    return values


def report(anomalies: Iterable[object], lines_max: int = 20) -> str:
    found = [str(each) for each in anomalies]
    more = [f"and {len(found) - lines_max} more"] if len(found) > lines_max else []
    return "\n".join([*found[:lines_max], *more])
