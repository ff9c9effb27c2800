"""One transactional id: who owns it, and where its transaction stands.

`value` is what is committed to the log. At most one change of it is on its way (`pending`); whoever asks for
another meanwhile is told to come again. Decisions here return the next value, or the error to answer with.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.transactions.messages import NO_PRODUCER_ID, Identity, InitRequest
from penstock.transactions.records import NO_TIMESTAMP, TransactionValue
from penstock.transactions.states import TRANSITIONS, TransactionState
from penstock.types import ErrorCode

if TYPE_CHECKING:
    from penstock.transactions.limits import TransactionLimits
    from penstock.types import TopicPartition

EPOCH_MAX: Final = 32_767
EPOCH_LAST: Final = EPOCH_MAX - 1
"""The last epoch that a producer gets: one more is left, with which it can be fenced."""


class Transaction:
    def __init__(self, transactional_id: str, value: TransactionValue | None = None) -> None:
        self.transactional_id = transactional_id
        self.value = value
        self.pending: TransactionValue | None = None
        self.is_pending = False
        self.retry_at_ms = 0
        """When a change that nobody waits for, and that could not be written, is tried again."""
        self._before: tuple[int, int] | None = None
        """The id and epoch that the present ones replaced at their owner's own request, for its retries."""
        self._asked_by: tuple[int, int] | None = None
        """Of the change that is on its way, the same."""

    @property
    def state(self) -> TransactionState:
        return TransactionState.EMPTY if self.value is None else self.value.state

    def begin(self, value: TransactionValue | None) -> None:
        if value is not None and self.value is not None:
            assert value.state in TRANSITIONS[self.value.state], f"{self.value.state} to {value.state}"
        self.pending, self.is_pending = value, True

    def finish(self, *, is_written: bool) -> None:
        if is_written:
            before = self.value
            self.value = self.pending
            if before is not None and self.value is not None and _owner(before) != _owner(self.value):
                self._before = self._asked_by
        self.pending, self.is_pending, self._asked_by = None, False, None

    # Decisions

    def init(self, request: InitRequest, now_ms: int) -> TransactionValue | ErrorCode:
        """The owner's next epoch; an ongoing transaction is aborted first, under an epoch of its own."""
        if self.is_busy:
            return ErrorCode.concurrent_transactions
        value = self.value
        if value is None:
            if request.producer_id != NO_PRODUCER_ID:
                return ErrorCode.invalid_producer_id_mapping
            return self._owned(request, request.fresh_producer_id, 0, now_ms)
        asked, current = (request.producer_id, request.producer_epoch), _owner(value)
        is_first = request.producer_id == NO_PRODUCER_ID
        if not is_first and asked not in (current, self._before):
            return ErrorCode.producer_fenced
        if value.state is TransactionState.ONGOING:
            return self.aborted(now_ms)
        if not is_first and asked == self._before:
            return value  # its answer was lost: the epoch was raised already
        self._asked_by = None if is_first else asked
        if value.producer_epoch >= EPOCH_LAST:
            return self._owned(request, request.fresh_producer_id, 0, now_ms)
        return self._owned(request, value.producer_id, value.producer_epoch + 1, now_ms)

    def _owned(self, request: InitRequest, producer_id: int, epoch: int, now_ms: int) -> TransactionValue:
        return TransactionValue(
            producer_id=producer_id,
            producer_epoch=epoch,
            timeout_ms=request.timeout_ms,
            state=TransactionState.EMPTY,
            last_update_ms=now_ms,
        )

    def aborted(self, now_ms: int) -> TransactionValue:
        """Abort what is ongoing in the next epoch: its producer can neither go on nor commit."""
        assert self.value is not None
        return replace(
            self.value,
            state=TransactionState.PREPARE_ABORT,
            producer_epoch=min(self.value.producer_epoch + 1, EPOCH_MAX),
            last_update_ms=now_ms,
        )

    def refuse(self, who: Identity) -> ErrorCode:
        """Why this producer may not act on the transaction; none if it may."""
        if self.value is None or self.value.producer_id != who.producer_id:
            return ErrorCode.invalid_producer_id_mapping
        if self.value.producer_epoch != who.producer_epoch:
            return ErrorCode.producer_fenced
        if self.is_pending:
            return ErrorCode.concurrent_transactions
        return ErrorCode.none

    def add(
        self, partitions: frozenset[TopicPartition], limits: TransactionLimits, now_ms: int
    ) -> TransactionValue | ErrorCode:
        """None is needed for partitions that are in it already: then the value stays as it is."""
        assert self.value is not None
        if self.state.is_ending:
            return ErrorCode.concurrent_transactions
        is_ongoing = self.state is TransactionState.ONGOING
        known = self.value.partitions if is_ongoing else frozenset()
        if is_ongoing and partitions <= known:
            return self.value
        if len(known | partitions) > limits.partitions_max:
            return ErrorCode.invalid_request
        return replace(
            self.value,
            state=TransactionState.ONGOING,
            partitions=known | partitions,
            start_ms=self.value.start_ms if is_ongoing else now_ms,
            last_update_ms=now_ms,
        )

    def end(self, *, is_commit: bool, now_ms: int) -> TransactionValue | ErrorCode:
        """The value itself if the transaction has ended like this already."""
        assert self.value is not None
        prepare, complete = _OUTCOMES[is_commit]
        if self.state is TransactionState.ONGOING:
            return replace(self.value, state=prepare, last_update_ms=now_ms)
        if self.state is complete:
            return self.value
        if self.state is prepare:
            return ErrorCode.concurrent_transactions
        return ErrorCode.invalid_txn_state

    def completed(self, now_ms: int) -> TransactionValue:
        assert self.value is not None
        _, complete = _OUTCOMES[self.is_commit]
        return replace(
            self.value,
            state=complete,
            partitions=frozenset(),
            start_ms=NO_TIMESTAMP,
            last_update_ms=now_ms,
        )

    # Views

    @property
    def is_busy(self) -> bool:
        """Whether something is on its way, after which it will be another."""
        return self.is_pending or self.state.is_ending

    @property
    def is_commit(self) -> bool:
        return self.state is TransactionState.PREPARE_COMMIT

    def has(self, partition: TopicPartition) -> bool:
        """Whether it is open, nobody is about to end it, and the partition is in it."""
        after = self.pending if self.is_pending else self.value
        return (
            self.value is not None
            and after is not None
            and self.state is after.state is TransactionState.ONGOING
            and partition in self.value.partitions
        )

    @property
    def identity(self) -> Identity:
        assert self.value is not None
        return Identity(self.transactional_id, self.value.producer_id, self.value.producer_epoch)

    def next_deadline_ms(self, limits: TransactionLimits) -> int | None:
        if self.value is None or self.is_busy:
            return None
        if self.state is TransactionState.ONGOING:
            due = self.value.start_ms + self.value.timeout_ms
        else:
            due = self.value.last_update_ms + limits.transactional_id_expiration_ms
        return max(due, self.retry_at_ms)


def _owner(value: TransactionValue) -> tuple[int, int]:
    return value.producer_id, value.producer_epoch


_OUTCOMES: Final = {
    True: (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT),
    False: (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT),
}
