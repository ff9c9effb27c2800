"""Writes a transaction's marker to a partition that this broker leads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from penstock.broker.group_coordinator import OFFSETS_TOPIC
from penstock.types import ApiError, ErrorCode, TopicPartition
from penstock.wire.control import Marker, encode_marker

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.groups.messages import Producer


COMMIT_S_MAX: Final = 2.0
"""For a marker to be committed. Who wants it asks again, and nobody waits for a partition that is stuck."""


async def write_marker(
    broker: Broker, where: TopicPartition, producer: Producer, marker: Marker
) -> ErrorCode:
    """The marker is committed when this returns no error."""
    try:
        async with asyncio.timeout(COMMIT_S_MAX):
            return await _write_marker(broker, where, producer, marker)
    except TimeoutError:
        return ErrorCode.request_timed_out


async def _write_marker(
    broker: Broker, where: TopicPartition, producer: Producer, marker: Marker
) -> ErrorCode:
    try:
        partition = broker.partitions.require(where.topic, where.partition)
        partition.check_is_leader()
        if not partition.has_enough_replicas:
            return ErrorCode.not_enough_replicas
        partition.log.producers.check_marker(*producer, marker)
        # From here on nothing of the transaction may be appended, also if the coordinator allowed it before.
        partition.verifications.end(producer.id)
        if where.topic == OFFSETS_TOPIC:
            shard = broker.groups.maybe_shard(where.partition)
            if shard is None:
                return ErrorCode.not_leader_or_follower
            await shard.end_transaction(producer, marker)
        else:
            await partition.append_own(encode_marker(marker, *producer, broker.now_ms()))
    except ApiError as error:
        return error.code
    return ErrorCode.none
