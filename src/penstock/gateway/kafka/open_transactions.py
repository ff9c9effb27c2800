"""Transactions as partitions and coordinators know them, and which hang. Pure.

A partition is told of a transaction's end by its coordinator, and until then it shows nothing that came after
the transaction's beginning to readers of committed data. One that no coordinator knows will never end: it
hangs, and holds them up until somebody ends it by hand.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from penstock.types import TopicPartition

NO_OFFSET: Final = -1
NO_TIMESTAMP: Final = -1
OPEN_STATES: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort"})
"""By Kafka's names. In others there may be the time of a start as well: that of one that is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """One that a partition waits for."""

    topic: str
    partition: int
    leader: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp_ms: int

    @property
    def where(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTransaction:
    """One that a coordinator knows."""

    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int
    partitions: frozenset[TopicPartition]

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


def owner_of(found: OpenTransaction, known: Iterable[KnownTransaction]) -> KnownTransaction | None:
    """The transaction that the partition waits for, as its coordinator has it."""
    for each in known:
        if each.producer_id == found.producer_id and found.where in each.partitions:
            return each
    return None


def why_hanging(
    found: OpenTransaction, known: Iterable[KnownTransaction], now_ms: int, age_ms_max: int
) -> str | None:
    """None if its coordinator is there and has not had the time to end it."""
    owner = owner_of(found, known)
    if owner is None:
        return "no coordinator knows it"
    age_ms = now_ms - owner.start_ms
    if owner.start_ms != NO_TIMESTAMP and age_ms > age_ms_max:
        return f"{owner.state} for {age_ms // 1000} s"
    return None
