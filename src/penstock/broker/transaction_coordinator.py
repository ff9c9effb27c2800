"""The transaction coordinator of this broker, on `__transaction_state`."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.broker.coordinator import Coordinator
from penstock.broker.transaction_markers import TransactionMarkers
from penstock.broker.transaction_shard import TransactionShard
from penstock.groups.messages import Producer
from penstock.peers.connection import PeerError
from penstock.peers.peers import Lane
from penstock.transactions.messages import Identity
from penstock.types import ApiError, ErrorCode, TopicPartition
from penstock.wire.primitives import DecodeError

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.partition import Partition
    from penstock.broker.verifications import WhenVerified
    from penstock.transactions.messages import Effect, InitRequest, Reply
    from penstock.transactions.shard import Shard
    from penstock.transactions.transaction import Transaction
    from penstock.wire.batch import BatchHeader

log = logging.getLogger(__name__)

TRANSACTIONS_TOPIC: Final = "__transaction_state"
ADD_PARTITIONS_TO_TXN: Final = (24, 4)
VERIFY_S_MAX: Final = 10.0
SETTLE_S_MAX: Final = 0.2


class TransactionCoordinator(Coordinator[TransactionShard]):
    topic = TRANSACTIONS_TOPIC

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker, broker.config.transactions_topic_partitions)
        self.limits = broker.config.transactions
        self._markers = TransactionMarkers(broker)
        self._questions: set[asyncio.Task[None]] = set()

    def new_shard(self, partition: Partition) -> TransactionShard:
        return TransactionShard(partition, self.limits, self.now_ms, self._markers)

    async def stop(self) -> None:
        await self._markers.close()
        for question in self._questions:
            question.cancel()
        await super().stop()

    # Requests

    async def init(self, request: InitRequest) -> Reply:
        shard = self.shard(request.transactional_id)
        return await shard.request(lambda token, now_ms: shard.core.init(token, request, now_ms))

    async def add_partitions(self, who: Identity, partitions: frozenset[TopicPartition]) -> ErrorCode:
        """While the end of the owner's last transaction is on its way, the first partitions of the next one
        wait for that a little: clients that are told to come again do so after ten times as long.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + SETTLE_S_MAX
        while True:
            shard = self.shard(who.transactional_id)
            add = partial(_add_partitions, shard.core, who, partitions)
            reply = await shard.request(add)
            left_s = until_s - loop.time()
            if reply.error is not ErrorCode.concurrent_transactions or left_s <= 0:
                return reply.error
            if not await shard.settled(who.transactional_id, left_s):
                return reply.error

    async def end(self, who: Identity, *, is_commit: bool) -> ErrorCode:
        shard = self.shard(who.transactional_id)
        reply = await shard.request(
            lambda token, now_ms: shard.core.end(token, who, is_commit=is_commit, now_ms=now_ms)
        )
        return reply.error

    def verify_batch(
        self,
        partition: Partition,
        transactional_id: str | None,
        header: BatchHeader,
        when_verified: WhenVerified,
    ) -> None:
        """Call back when the coordinator has said whether the batch's transaction is open here."""
        if transactional_id is None:
            when_verified(ApiError(ErrorCode.invalid_request, "a transactional batch without its id"))
            return
        who = Identity(transactional_id, header.producer_id, header.producer_epoch)
        where = TopicPartition(partition.topic, partition.index)
        producer = Producer(header.producer_id, header.producer_epoch)
        if partition.verifications.join(producer, when_verified):
            question = partition.verifications.run(producer, lambda: self.verify(who, where))
            task = asyncio.get_running_loop().create_task(question)
            self._questions.add(task)
            task.add_done_callback(self._questions.discard)

    async def verify(self, who: Identity, partition: TopicPartition) -> ErrorCode:
        """Whether the partition is in the producer's open transaction, whoever coordinates that."""
        leader = self.maybe_leader(who.transactional_id)
        if leader is None:
            return ErrorCode.coordinator_not_available
        if leader.id == self._broker.config.node_id:
            return self.verify_here(who, partition)
        try:
            answer = await self._broker.peers.ask(
                leader.id,
                Lane.TRANSACTIONS,
                *ADD_PARTITIONS_TO_TXN,
                _verification(who, partition),
                timeout_s=VERIFY_S_MAX,
            )
        except (PeerError, DecodeError) as error:
            log.debug("verification at node %d: %s", leader.id, error)
            return ErrorCode.coordinator_not_available
        if answer.error_code is not ErrorCode.none:
            return ErrorCode(answer.error_code)
        (result,) = answer.results_by_transaction
        return ErrorCode(result.topic_results[0].results_by_partition[0].partition_error_code)

    def verify_here(self, who: Identity, partition: TopicPartition) -> ErrorCode:
        try:
            return self.shard(who.transactional_id).core.verify(who, partition)
        except ApiError as error:
            return error.code

    # Views

    def maybe_transaction(self, transactional_id: str) -> Transaction | None:
        """To be looked at and not changed."""
        return self.shard(transactional_id).core.transactions.get(transactional_id)

    def transactions(self) -> list[Transaction]:
        return [each for shard in self.ready_shards() for each in shard.core.transactions.values()]


def _add_partitions(
    core: Shard, who: Identity, partitions: frozenset[TopicPartition], token: int, now_ms: int
) -> list[Effect]:
    return core.add_partitions(token, who, partitions, now_ms)


def _verification(who: Identity, partition: TopicPartition) -> dict[str, object]:
    return {
        "transactions": [
            {
                "transactional_id": who.transactional_id,
                "producer_id": who.producer_id,
                "producer_epoch": who.producer_epoch,
                "verify_only": True,
                "topics": [{"name": partition.topic, "partitions": [partition.partition]}],
            }
        ]
    }
