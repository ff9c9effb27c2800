"""What goes into the core and what comes out, as data.

A request that is answered later carries a token; the answer names it. A `Write` must be committed before its
consequences are shown: the driver writes it and reports back with `Shard.written`. `SendMarkers` goes to the
leaders of the partitions, again and again until each has it; then `Shard.marked` is called.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.types import ErrorCode, TopicPartition

if TYPE_CHECKING:
    from penstock.transactions.records import TransactionValue
    from penstock.transactions.transaction import Transaction

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class InitRequest:
    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    """What the producer has, if it asks for the next epoch of that (KIP-360)."""
    fresh_producer_id: int
    """The id to give if it needs a new one."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks: a producer of this id and epoch is the owner of the transactional id, or was."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Reply:
    error: ErrorCode = ErrorCode.none
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True)
class Answer:
    token: int
    reply: Reply


@dataclass(frozen=True, slots=True)
class Write:
    """`value` is what the transaction becomes when it is committed; None: it is forgotten."""

    transaction: Transaction
    value: TransactionValue | None
    token: int | None = None
    reply: Reply = Reply()

    @property
    def record(self) -> tuple[bytes, bytes | None]:
        from penstock.transactions.records import encode_key, encode_value

        key = encode_key(self.transaction.transactional_id)
        return key, None if self.value is None else encode_value(self.value)


@dataclass(frozen=True, slots=True)
class SendMarkers:
    identity: Identity
    is_commit: bool
    partitions: frozenset[TopicPartition]


Effect = Answer | Write | SendMarkers
