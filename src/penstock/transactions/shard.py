"""All transactions whose records live in one partition of `__transaction_state`.

Created when this node leads the partition: `replay` takes its records in order, `finish_loading` goes on with
what was decided and not done, then requests may come. Every method returns effects; the driver delivers the
answers, carries out the writes in the order given and calls `written` for each, sends the markers and calls
`marked`. State that others can see changes only in `written`.

Two rules make a transaction atomic. The outcome is in the log before the first marker leaves (PREPARE), so
every later coordinator sends the same one. And a producer is the owner only as long as its epoch is the last
one given out: an older one can neither add partitions nor end the transaction, and markers carry the epoch
to the partitions, which then refuse its records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.transactions import records
from penstock.transactions.messages import Answer, Effect, Identity, InitRequest, Reply, SendMarkers, Write
from penstock.transactions.states import TransactionState
from penstock.transactions.transaction import Transaction
from penstock.types import ErrorCode
from penstock.wire.fields import fits

if TYPE_CHECKING:
    from penstock.transactions.limits import TransactionLimits
    from penstock.transactions.records import TransactionValue
    from penstock.types import TopicPartition

RETRY_MS: Final = 500
"""Until a write that nobody waits for, and that failed, is tried again."""


class Shard:
    def __init__(self, limits: TransactionLimits) -> None:
        self.limits = limits
        self.transactions: dict[str, Transaction] = {}

    # Loading

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Take one record of the log. Raises RecordError if it cannot be understood."""
        transactional_id = records.decode_key(key)
        if value is None:
            self.transactions.pop(transactional_id, None)
        else:
            decoded = records.decode_value(value)
            self.transactions[transactional_id] = Transaction(transactional_id, decoded)

    def finish_loading(self) -> list[Effect]:
        """Some outcomes were decided, and nobody knows how many of their markers have arrived."""
        return [_markers(each) for each in self.transactions.values() if each.state.is_ending]

    # Requests

    def init(self, token: int, request: InitRequest, now_ms: int) -> list[Effect]:
        error = self._refuse_init(request)
        if error is not ErrorCode.none:
            return [Answer(token, Reply(error))]
        transaction = self.transactions.get(request.transactional_id)
        if transaction is None:
            transaction = Transaction(request.transactional_id)
        outcome = transaction.init(request, now_ms)
        if isinstance(outcome, ErrorCode):
            return [Answer(token, Reply(outcome))]
        self.transactions[request.transactional_id] = transaction
        if outcome.state.is_ending:  # the owner asks again until its old transaction is aborted
            return self._write(transaction, outcome, token, Reply(ErrorCode.concurrent_transactions))
        reply = Reply(ErrorCode.none, outcome.producer_id, outcome.producer_epoch)
        return self._write(transaction, outcome, token, reply)

    def _refuse_init(self, request: InitRequest) -> ErrorCode:
        if not request.transactional_id or not fits(request.transactional_id):
            return ErrorCode.invalid_request
        if not 0 < request.timeout_ms <= self.limits.transaction_timeout_ms_max:
            return ErrorCode.invalid_transaction_timeout
        return ErrorCode.none

    def add_partitions(
        self, token: int, who: Identity, partitions: frozenset[TopicPartition], now_ms: int
    ) -> list[Effect]:
        transaction = self.transactions.get(who.transactional_id)
        error = _refuse(transaction, who)
        if error is not ErrorCode.none:
            return [Answer(token, Reply(error))]
        assert transaction is not None
        return self._change(transaction, transaction.add(partitions, self.limits, now_ms), token)

    def verify(self, who: Identity, partition: TopicPartition) -> ErrorCode:
        """Whether records of this producer may be appended to the partition now (KIP-890)."""
        transaction = self.transactions.get(who.transactional_id)
        error = _refuse(transaction, who)
        if error not in (ErrorCode.none, ErrorCode.concurrent_transactions):
            return error
        assert transaction is not None
        if transaction.has(partition):
            return ErrorCode.none  # also if it is about to get others: that is no reason to wait in this one
        return ErrorCode.concurrent_transactions if transaction.is_busy else ErrorCode.invalid_txn_state

    def end(self, token: int, who: Identity, *, is_commit: bool, now_ms: int) -> list[Effect]:
        transaction = self.transactions.get(who.transactional_id)
        error = _refuse(transaction, who)
        if error is not ErrorCode.none:
            return [Answer(token, Reply(error))]
        assert transaction is not None
        return self._change(transaction, transaction.end(is_commit=is_commit, now_ms=now_ms), token)

    def _change(
        self, transaction: Transaction, outcome: TransactionValue | ErrorCode, token: int
    ) -> list[Effect]:
        if isinstance(outcome, ErrorCode):
            return [Answer(token, Reply(outcome))]
        return self._write(transaction, outcome, token, Reply())

    # Time

    def expire(self, transaction: Transaction, now_ms: int) -> list[Effect]:
        """Abort a transaction that took too long; forget an id that nobody uses."""
        due = transaction.next_deadline_ms(self.limits)
        if due is None or due > now_ms:
            return []
        if transaction.state is TransactionState.ONGOING:
            return self._write(transaction, transaction.aborted(now_ms))
        transaction.begin(None)
        return [Write(transaction, None)]

    # Outcomes

    def written(self, write: Write, error: ErrorCode, now_ms: int) -> list[Effect]:
        """The record of `write` is committed, or could not be written because of `error`."""
        transaction = write.transaction
        transaction.finish(is_written=error is ErrorCode.none)
        effects: list[Effect] = []
        if write.token is not None:
            effects.append(Answer(write.token, write.reply if error is ErrorCode.none else Reply(error)))
        if error is not ErrorCode.none:
            transaction.retry_at_ms = now_ms + RETRY_MS
            if transaction.value is None:
                del self.transactions[transaction.transactional_id]
            elif transaction.state.is_ending:
                effects.append(_markers(transaction))
        elif write.value is None:
            del self.transactions[transaction.transactional_id]
        elif write.value.state.is_ending:
            effects.append(_markers(transaction))
        return effects

    def marked(self, who: Identity, now_ms: int) -> list[Effect]:
        """Every partition of the transaction has its marker."""
        transaction = self.transactions.get(who.transactional_id)
        if (
            transaction is None
            or transaction.is_pending
            or not transaction.state.is_ending
            or transaction.identity != who
        ):
            return []
        return self._write(transaction, transaction.completed(now_ms))

    def _write(
        self,
        transaction: Transaction,
        value: TransactionValue,
        token: int | None = None,
        reply: Reply | None = None,
    ) -> list[Effect]:
        reply = reply or Reply()
        if value is transaction.value:  # it is there already
            return [] if token is None else [Answer(token, reply)]
        transaction.begin(value)
        return [Write(transaction, value, token, reply)]


def _refuse(transaction: Transaction | None, who: Identity) -> ErrorCode:
    return ErrorCode.invalid_producer_id_mapping if transaction is None else transaction.refuse(who)


def _markers(transaction: Transaction) -> SendMarkers:
    assert transaction.value is not None
    return SendMarkers(transaction.identity, transaction.is_commit, transaction.value.partitions)
