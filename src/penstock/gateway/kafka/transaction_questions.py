"""What is asked about transactions, and how brokers are told to end one: bodies as plain mappings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

from penstock.gateway.kafka.questions import DESCRIBE_PRODUCERS, INIT_PRODUCER_ID, Api

if TYPE_CHECKING:
    from penstock.gateway.kafka.open_transactions import OpenTransaction

FIND_COORDINATOR: Final = Api("FindCoordinator", 10, 4, 4)
WRITE_TXN_MARKERS: Final = Api("WriteTxnMarkers", 27, 1, 1)
DESCRIBE_TRANSACTIONS: Final = Api("DescribeTransactions", 65, 0, 0)
LIST_TRANSACTIONS: Final = Api("ListTransactions", 66, 0, 0)

TRANSACTION_KEY: Final = 1


@dataclass(frozen=True, slots=True)
class CoordinatorQuestion:
    api: ClassVar[Api] = FIND_COORDINATOR
    transactional_id: str

    def body(self, version: int) -> Mapping[str, Any]:  # noqa: ARG002 - there is but one
        return {"key_type": TRANSACTION_KEY, "coordinator_keys": [self.transactional_id]}


@dataclass(frozen=True, slots=True)
class TransactionsQuestion:
    """The transactions that a broker coordinates; of all producers if none are named."""

    api: ClassVar[Api] = LIST_TRANSACTIONS
    producer_ids: Collection[int] = ()

    def body(self, version: int) -> Mapping[str, Any]:  # noqa: ARG002 - there is but one
        return {"state_filters": [], "producer_id_filters": list(self.producer_ids)}


@dataclass(frozen=True, slots=True)
class TransactionQuestion:
    """Where some transactions stand, of those that a broker coordinates."""

    api: ClassVar[Api] = DESCRIBE_TRANSACTIONS
    transactional_ids: Sequence[str]

    def body(self, version: int) -> Mapping[str, Any]:  # noqa: ARG002 - there is but one
        return {"transactional_ids": list(self.transactional_ids)}


@dataclass(frozen=True, slots=True)
class AllProducersQuestion:
    """Who has written to some partitions, and what of it is open."""

    api: ClassVar[Api] = DESCRIBE_PRODUCERS
    partitions: Mapping[str, Sequence[int]]

    def body(self, version: int) -> Mapping[str, Any]:  # noqa: ARG002 - there is but one
        topics = [{"name": name, "partition_indexes": indexes} for name, indexes in self.partitions.items()]
        return {"topics": topics}


@dataclass(frozen=True, slots=True)
class OwnerQuestion:
    """Makes the asker the owner of the id: what its owner until now left open is aborted."""

    api: ClassVar[Api] = INIT_PRODUCER_ID
    transactional_id: str
    timeout_ms: int

    def body(self, version: int) -> Mapping[str, Any]:  # noqa: ARG002 - defaults are all that differs
        return {
            "transactional_id": self.transactional_id,
            "transaction_timeout": timedelta(milliseconds=self.timeout_ms),
        }


@dataclass(frozen=True, slots=True)
class AbortQuestion:
    """Not a question: the partition's leader is to write the marker of an abort."""

    api: ClassVar[Api] = WRITE_TXN_MARKERS
    transaction: OpenTransaction

    def body(self, version: int) -> Mapping[str, Any]:  # noqa: ARG002 - there is but one
        found = self.transaction
        marker = {
            "producer_id": found.producer_id,
            "producer_epoch": found.producer_epoch,
            "transaction_result": False,
            # A partition that has seen no coordinator of this producer yet takes any.
            "coordinator_epoch": max(found.coordinator_epoch, 0),
            "topics": [{"name": found.topic, "partition_indexes": [found.partition]}],
        }
        return {"markers": [marker]}
