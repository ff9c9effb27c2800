"""WriteTxnMarkers (27), version 1: coordinators, and administrators, end transactions in partitions.

Each marker is answered when it is committed. In a partition of `__consumer_offsets` what the transaction
prepared becomes the groups' offsets, or nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.broker.marker_writer import write_marker
from penstock.groups.messages import Producer
from penstock.types import TopicPartition
from penstock.wire.control import Marker
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.write_txn_markers.v1.request import WritableTxnMarker, WriteTxnMarkersRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body


@api(27, 1, 1)
async def write_txn_markers(request: WriteTxnMarkersRequest, context: RequestContext) -> Body:
    return {"markers": await asyncio.gather(*(_write(each, context) for each in request.markers))}


async def _write(asked: WritableTxnMarker, context: RequestContext) -> Body:
    producer = Producer(asked.producer_id, asked.producer_epoch)
    marker = Marker(asked.transaction_result, asked.coordinator_epoch)
    wanted = [
        TopicPartition(topic.name, index) for topic in asked.topics for index in topic.partition_indexes
    ]
    errors = await asyncio.gather(
        *(write_marker(context.broker, where, producer, marker) for where in wanted)
    )
    outcomes = dict(zip(wanted, errors, strict=True))
    return {
        "producer_id": asked.producer_id,
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": index, "error_code": outcomes[TopicPartition(topic.name, index)]}
                    for index in topic.partition_indexes
                ],
            }
            for topic in asked.topics
        ],
    }
