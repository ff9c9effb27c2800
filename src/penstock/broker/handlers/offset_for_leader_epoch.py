"""OffsetForLeaderEpoch (23), versions 2–4: where a leader epoch ended, so that readers notice lost tails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.types import ApiError, ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.offset_for_leader_epoch.v4.request import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
    )

    from penstock.broker.broker import Broker
    from penstock.broker.context import RequestContext
    from penstock.broker.partition import Partition
    from penstock.wire.shapes import Body


@api(23, 2, 4)
def offset_for_leader_epoch(request: OffsetForLeaderEpochRequest, context: RequestContext) -> Body:
    return {
        "topics": [
            {
                "topic": topic.topic,
                "partitions": [_answer(context.broker, topic.topic, each) for each in topic.partitions],
            }
            for topic in request.topics
        ]
    }


def _answer(broker: Broker, topic: str, wanted: OffsetForLeaderPartition) -> dict[str, Any]:
    try:
        partition = broker.partitions.require(topic, wanted.partition)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        partition.check_is_leader()
    except ApiError as error:
        return {"partition": wanted.partition, "error_code": error.code}
    epoch, end_offset = _end_of_epoch(partition, wanted.leader_epoch)
    return {
        "partition": wanted.partition,
        "error_code": ErrorCode.none,
        "leader_epoch": epoch,
        "end_offset": end_offset,
    }


def _end_of_epoch(partition: Partition, epoch: int) -> tuple[int, int]:
    log = partition.log
    if log.epochs.latest < epoch <= partition.leader_epoch:
        # The log has nothing of this epoch yet: it begins, or the one before it ends, at the log's end.
        return (epoch if epoch == partition.leader_epoch else log.epochs.latest), log.log_end_offset
    return log.epochs.end_offset(epoch, log.log_end_offset)
