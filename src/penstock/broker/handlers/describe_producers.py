"""DescribeProducers (61), version 0: the idempotent producers that partitions remember."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.broker.answers import error_fields
from penstock.types import ApiError
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.describe_producers.v0.request import DescribeProducersRequest

    from penstock.broker.broker import Broker
    from penstock.broker.context import RequestContext
    from penstock.storage import PartitionLog
    from penstock.wire.shapes import Body

NO_OFFSET = -1


@api(61, 0, 0)
def describe_producers(request: DescribeProducersRequest, context: RequestContext) -> Body:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [_answer(context.broker, topic.name, each) for each in topic.partition_indexes],
            }
            for topic in request.topics
        ]
    }


def _answer(broker: Broker, topic: str, index: int) -> dict[str, Any]:
    try:
        partition = broker.partitions.require(topic, index)
    except ApiError as error:
        return {"partition_index": index, **error_fields(error)}
    return {
        "partition_index": index,
        **error_fields(None),
        "active_producers": _producers(partition.log),
    }


def _producers(log: PartitionLog) -> list[dict[str, Any]]:
    answers = []
    for producer_id in log.producers.last_offsets():
        state = log.producers.get(producer_id)
        if state is not None:
            answers.append(
                {
                    "producer_id": producer_id,
                    "producer_epoch": state.epoch,
                    "last_sequence": state.batches[-1].last_sequence,
                    "last_timestamp": state.batches[-1].timestamp,
                    "coordinator_epoch": state.coordinator_epoch,
                    "current_txn_start_offset": log.producers.transactions.open.get(producer_id, NO_OFFSET),
                }
            )
    return answers
