"""Writing with sequence numbers that somebody else gives.

librdkafka numbers what it sends by itself, and begins anew with each process. Here the numbers are a client's
own, and so is the producer id: a batch with number n is stored only if n - 1 was the last number of that
producer in that partition, by whichever gateway it came, however often it comes. The brokers check it, as
they do for every idempotent producer, so nothing has to be agreed upon between gateways, and a batch that a
gateway has lost sight of can arrive late and do no harm.

A broker remembers the numbers of a producer for as long as it is not silent for too long
(`producer.id.expiration.ms`, a day by default). Numbers have 31 bits there and wrap around.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.gateway.kafka.cluster_client import ClusterClient, NotNowError, check, only_partition
from penstock.gateway.kafka.errors import (
    InvalidRequestError,
    KafkaClientError,
    MessageTooLargeError,
)
from penstock.gateway.kafka.questions import (
    LATEST,
    READ_UNCOMMITTED,
    EndQuestion,
    ProduceQuestion,
    ProducerIdQuestion,
    ProducersQuestion,
)
from penstock.types import ErrorCode
from penstock.wire.records import Record, encode_batch

if TYPE_CHECKING:
    from penstock.gateway.kafka.cluster_view import Route

SEQUENCE_MASK: Final = 2**31 - 1
PRODUCE_TIMEOUT_MS: Final = 5_000
COMMIT_POLL_S: Final = 0.005
ATTEMPTS_MAX: Final = 3

OUT_OF_ORDER: Final = frozenset({ErrorCode.out_of_order_sequence_number, ErrorCode.duplicate_sequence_number})
TOO_LARGE: Final = frozenset({ErrorCode.message_too_large, ErrorCode.record_list_too_large})
REFUSED: Final = frozenset(
    {
        ErrorCode.invalid_record,
        ErrorCode.invalid_timestamp,
        ErrorCode.policy_violation,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.unknown_producer_id,
    }
)


class OutOfOrderError(KafkaClientError):
    """The first number is not the one after the last that is stored."""


class SequencedWriter:
    def __init__(self, client: ClusterClient) -> None:
        self._client = client

    async def new_producer_id(self) -> int:
        for _ in range(ATTEMPTS_MAX):
            answer = await self._client.ask_anybody(ProducerIdQuestion(), "a producer id")
            if answer.error_code is ErrorCode.none:
                return int(answer.producer_id)
        raise KafkaClientError(f"no broker gives out a producer id: {answer.error_code.name}")

    async def last_sequence(self, topic: str, partition: int, producer_id: int) -> int | None:
        """The last number stored and committed, in 31 bits; None if the cluster remembers none.

        The leader tells what it has, which its replicas may not have yet. So we wait until all is committed
        that its log holds after that.
        """

        async def ask(route: Route) -> int | None:
            answer = await self._client.ask(route, ProducersQuestion(topic, partition))
            told = only_partition(each.partitions for each in answer.topics)
            check(told.error_code, topic)
            found = [each.last_sequence for each in told.active_producers if each.producer_id == producer_id]
            if not found or found[0] < 0:
                return None
            await self._committed(route, topic, partition)
            return int(found[0])

        return await self._client.insist(topic, partition, ask, of_leader=True)

    async def write(
        self, topic: str, partition: int, producer_id: int, first_sequence: int, records: Sequence[Record]
    ) -> int:
        """The offset of the first; all of them are stored, and committed, or none.

        Raises OutOfOrderError, MessageTooLargeError, KafkaUnavailableError and the like. After a
        KafkaUnavailableError it is not known whether they are stored.
        """
        batch = encode_batch(
            records,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=first_sequence & SEQUENCE_MASK,
        )
        question = ProduceQuestion(topic, partition, batch, PRODUCE_TIMEOUT_MS)

        async def ask(route: Route) -> int:
            answer = await self._client.ask(route, question, wait_s=PRODUCE_TIMEOUT_MS / 1000)
            told = only_partition(each.partition_responses for each in answer.responses)
            check_stored(told, topic, partition)
            return int(told.base_offset)

        return await self._client.insist(topic, partition, ask, of_leader=True)

    async def _committed(self, route: Route, topic: str, partition: int) -> None:
        """Until the high watermark has passed what is the end of the leader's log at this moment."""
        answer = await self._client.ask(route, EndQuestion(topic, partition, route.leader_epoch))
        told = only_partition(each.partitions for each in answer.topics)
        check(told.error_code, topic)
        deadline = asyncio.get_running_loop().time() + PRODUCE_TIMEOUT_MS / 1000
        while await self._high_watermark(route, topic, partition) < told.end_offset:
            if asyncio.get_running_loop().time() >= deadline:
                raise NotNowError("replicas are behind")
            await asyncio.sleep(COMMIT_POLL_S)

    async def _high_watermark(self, route: Route, topic: str, partition: int) -> int:
        return await self._client.list_offset(route, topic, partition, LATEST, READ_UNCOMMITTED)


def check_stored(told: Any, topic: str, partition: int) -> None:
    code, message = told.error_code, told.error_message
    if code in OUT_OF_ORDER:
        raise OutOfOrderError(message or code.name)
    if code in TOO_LARGE:
        raise MessageTooLargeError(f"too large for topic {topic!r}: {message or code.name}")
    if code in REFUSED:
        raise InvalidRequestError(f"{topic}-{partition}: {message or code.name}")
    check(code, topic)


def nearest(number: int, sequence: int) -> int:
    """The number whose lower 31 bits are `sequence` and that is nearest to `number`."""
    ahead = (sequence - number) & SEQUENCE_MASK
    return number + (ahead if ahead <= SEQUENCE_MASK // 2 else ahead - SEQUENCE_MASK - 1)
