"""What a cluster knows of its transactions, and how one is ended from outside.

Coordinators are asked one by one: each knows the transactional ids of the partitions of
`__transaction_state` that it leads. An answer counts only if all of them were there and none moved while they
were being asked; otherwise something that hangs could not be told from something that was overlooked.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from penstock.gateway.kafka.cluster_client import only_partition
from penstock.gateway.kafka.cluster_view import TopicView, brokers_in, topic_in
from penstock.gateway.kafka.errors import (
    InvalidRequestError,
    KafkaUnavailableError,
    UnknownPartitionError,
    UnknownTopicError,
)
from penstock.gateway.kafka.metadata import Metadata
from penstock.gateway.kafka.nodes import Lane, Nodes
from penstock.gateway.kafka.open_transactions import NO_OFFSET, KnownTransaction, OpenTransaction
from penstock.gateway.kafka.questions import MetadataQuestion, Question
from penstock.gateway.kafka.reader_limits import ReaderLimits
from penstock.gateway.kafka.transaction_questions import (
    AbortQuestion,
    AllProducersQuestion,
    CoordinatorQuestion,
    OwnerQuestion,
    TransactionQuestion,
    TransactionsQuestion,
)
from penstock.peers.connection import PeerError
from penstock.types import ErrorCode, TopicPartition

if TYPE_CHECKING:
    from penstock.peers.peers import Address

T = TypeVar("T")

TRANSACTIONS_TOPIC: Final = "__transaction_state"
MILLISECOND: Final = timedelta(milliseconds=1)
SETTLE_S_MAX: Final = 15.0
PAUSE_S: Final = 0.1
PASSING: Final = frozenset(
    {
        ErrorCode.concurrent_transactions,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.not_enough_replicas,
    }
)


class PassingError(Exception):
    """It is so at this moment: a coordinator loads, a leader has changed."""


class ClusterTransactions:
    def __init__(self, bootstrap: str, client_id: str, limits: ReaderLimits | None = None) -> None:
        limits = limits or ReaderLimits()
        self._nodes = Nodes(client_id, limits)
        self._metadata = Metadata(bootstrap, self._nodes, limits)

    def close(self) -> None:
        self._metadata.close()
        self._nodes.close()

    async def known(self, producer_ids: Collection[int] = ()) -> list[KnownTransaction]:
        """What coordinators know, of all producers if none are named."""
        return await settled(lambda: self._known(producer_ids))

    async def describe(self, transactional_id: str) -> KnownTransaction | None:
        async def ask() -> KnownTransaction | None:
            node_id, address = await self._coordinator(transactional_id)
            found = await self._describe(node_id, address, [transactional_id])
            return found[0] if found else None

        return await settled(ask)

    async def open(self, where: TopicPartition | None = None) -> list[OpenTransaction]:
        """What is open in one partition, or anywhere. Raises UnknownTopicError."""
        return await settled(lambda: self._open(where))

    async def abort(self, found: OpenTransaction) -> None:
        """Have the partition's leader end it there, and nowhere else."""

        async def ask() -> None:
            brokers, topics = await self._cluster()
            leader = _leader(topics, found.where, brokers)
            answer = await self._ask(brokers[leader], AbortQuestion(found))
            told = only_partition(topic.partitions for marker in answer.markers for topic in marker.topics)
            _check(told.error_code, f"{found.topic}-{found.partition}")

        await settled(ask)

    async def fence(self, known: KnownTransaction) -> None:
        """Take the id over: its transaction, if one is open, is aborted, and whoever has the id loses it."""

        async def ask() -> None:
            _, address = await self._coordinator(known.transactional_id)
            answer = await self._ask(address, OwnerQuestion(known.transactional_id, known.timeout_ms))
            _check(answer.error_code, known.transactional_id)

        await settled(ask)

    # One attempt each

    async def _known(self, producer_ids: Collection[int]) -> list[KnownTransaction]:
        brokers, topics = await self._cluster()
        before = _epochs(topics, brokers)
        found: list[KnownTransaction] = []
        for node_id in sorted({leader for leader, _ in before}):
            answer = await self._ask(brokers[node_id], TransactionsQuestion(producer_ids))
            _check(answer.error_code, f"broker {node_id}")
            ids = [each.transactional_id for each in answer.transaction_states]
            found += await self._describe(node_id, brokers[node_id], ids) if ids else []
        brokers, topics = await self._cluster()
        if before != _epochs(topics, brokers):
            raise PassingError("a coordinator has moved")
        return sorted(found, key=lambda each: each.transactional_id)

    async def _describe(self, node_id: int, address: Address, ids: Sequence[str]) -> list[KnownTransaction]:
        answer = await self._ask(address, TransactionQuestion(ids))
        found = []
        for told in answer.transaction_states:
            if told.error_code is not ErrorCode.transactional_id_not_found:  # else it was forgotten meanwhile
                _check(told.error_code, told.transactional_id)
                found.append(_known_transaction(told, node_id))
        return found

    async def _open(self, where: TopicPartition | None) -> list[OpenTransaction]:
        brokers, topics = await self._cluster()
        every = [TopicPartition(name, index) for name, view in topics.items() for index in view.partitions]
        by_leader: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for each in [where] if where else every:
            by_leader[_leader(topics, each, brokers)][each.topic].append(each.partition)
        found: list[OpenTransaction] = []
        for leader, partitions in sorted(by_leader.items()):
            answer = await self._ask(brokers[leader], AllProducersQuestion(partitions))
            for topic in answer.topics:
                for partition in topic.partitions:
                    _check(partition.error_code, f"{topic.name}-{partition.partition_index}")
                    found += _open_in(topic.name, partition, leader)
        return sorted(found, key=lambda each: (each.where, each.start_offset))

    async def _coordinator(self, transactional_id: str) -> tuple[int, Address]:
        answer = await self._metadata.ask_anybody(CoordinatorQuestion(transactional_id))
        (told,) = answer.coordinators
        _check(told.error_code, transactional_id)
        brokers, _ = await self._cluster()
        if told.node_id not in brokers:
            raise PassingError(f"broker {told.node_id} is not there")
        return told.node_id, brokers[told.node_id]

    async def _cluster(self) -> tuple[dict[int, Address], dict[str, TopicView]]:
        answer = await self._metadata.ask_anybody(MetadataQuestion(None))
        return brokers_in(answer), {each.name: topic_in(each, 0.0) for each in answer.topics}

    async def _ask(self, address: Address, question: Question) -> Any:
        return await self._nodes.ask(address, Lane.CONTROL, question)


async def settled(ask: Callable[[], Awaitable[T]]) -> T:
    """The answer once there is one. Raises KafkaUnavailableError with the last reason why there was none."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SETTLE_S_MAX
    while True:
        try:
            return await ask()
        except (PeerError, PassingError) as error:
            if loop.time() >= deadline:
                raise KafkaUnavailableError(str(error)) from error
        await asyncio.sleep(PAUSE_S)


def _check(code: ErrorCode, what: str) -> None:
    if code in PASSING:
        raise PassingError(f"{what}: {code.name}")
    if code is not ErrorCode.none:
        raise InvalidRequestError(f"{what}: {code.name}")


def _leader(topics: dict[str, TopicView], where: TopicPartition, brokers: dict[int, Address]) -> int:
    if where.topic not in topics:
        raise UnknownTopicError(where.topic)
    view = topics[where.topic].partitions.get(where.partition)
    if view is None:
        raise UnknownPartitionError(*where)
    if view.leader not in brokers:
        raise PassingError(f"{where.topic}-{where.partition} has no leader")
    return view.leader


def _epochs(topics: dict[str, TopicView], brokers: dict[int, Address]) -> list[tuple[int, int]]:
    """Leader and epoch of each partition that holds transactional ids; there may be none yet."""
    if TRANSACTIONS_TOPIC not in topics:
        return []
    partitions = topics[TRANSACTIONS_TOPIC].partitions
    return [
        (_leader(topics, TopicPartition(TRANSACTIONS_TOPIC, index), brokers), partitions[index].leader_epoch)
        for index in sorted(partitions)
    ]


def _known_transaction(told: Any, coordinator: int) -> KnownTransaction:
    return KnownTransaction(
        transactional_id=told.transactional_id,
        coordinator=coordinator,
        state=told.transaction_state,
        producer_id=told.producer_id,
        producer_epoch=told.producer_epoch,
        timeout_ms=told.transaction_timeout // MILLISECOND,
        start_ms=told.transaction_start_time,
        partitions=frozenset(
            TopicPartition(topic.topic, index) for topic in told.topics for index in topic.partitions
        ),
    )


def _open_in(topic: str, partition: Any, leader: int) -> list[OpenTransaction]:
    return [
        OpenTransaction(
            topic=topic,
            partition=partition.partition_index,
            leader=leader,
            producer_id=each.producer_id,
            producer_epoch=each.producer_epoch,
            coordinator_epoch=each.coordinator_epoch,
            start_offset=each.current_txn_start_offset,
            last_timestamp_ms=each.last_timestamp,
        )
        for each in partition.active_producers
        if each.current_txn_start_offset != NO_OFFSET
    ]
