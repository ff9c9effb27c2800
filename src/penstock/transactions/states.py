"""The states of a transaction, and the only ways between them.

Empty           a producer has its id and epoch, and no transaction
Ongoing         partitions were added; records may be in them
PrepareCommit   the outcome is decided and written: whatever dies now, it will be committed
PrepareAbort    likewise, aborted
CompleteCommit  every partition has its marker
CompleteAbort   likewise
"""

from __future__ import annotations

import enum
from types import MappingProxyType


class TransactionState(enum.Enum):
    """The values are the names that DescribeTransactions and ListTransactions show."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"

    @property
    def is_ending(self) -> bool:
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_over(self) -> bool:
        """There is no transaction: another may begin."""
        return self in (
            TransactionState.EMPTY,
            TransactionState.COMPLETE_COMMIT,
            TransactionState.COMPLETE_ABORT,
        )


STATUS_BYTES = MappingProxyType({state: number for number, state in enumerate(TransactionState)})
"""How a record of `__transaction_state` names each state, the numbers being Kafka's."""

_OVER = frozenset({TransactionState.EMPTY, TransactionState.ONGOING})
TRANSITIONS = MappingProxyType(
    {
        # An abort of an ongoing transaction also ends one whose producer was fenced before it added anything.
        TransactionState.EMPTY: _OVER,
        TransactionState.ONGOING: frozenset(
            {TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}
        ),
        TransactionState.PREPARE_COMMIT: frozenset({TransactionState.COMPLETE_COMMIT}),
        TransactionState.PREPARE_ABORT: frozenset({TransactionState.COMPLETE_ABORT}),
        TransactionState.COMPLETE_COMMIT: _OVER,
        TransactionState.COMPLETE_ABORT: _OVER,
    }
)
