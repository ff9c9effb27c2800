"""DeleteRecords (21), versions 0–2: move the start of partitions, at most to their high watermarks.

Offset -1 stands for the high watermark. An offset before the start changes nothing. The answer waits until
every live replica has moved its own start. Topics that are only compacted refuse, as each of their records
may be the last of its key; so do the coordinators' topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.metadata.internal_topics import is_coordinators
from penstock.storage import StorageError
from penstock.types import ApiError, ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.delete_records.v2.request import DeleteRecordsRequest

    from penstock.broker.broker import Broker
    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body

HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1


@api(21, 0, 2)
async def delete_records(request: DeleteRecordsRequest, context: RequestContext) -> Body:
    timeout_s = request.timeout.total_seconds()
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    await _answer(context.broker, topic.name, each.partition_index, each.offset, timeout_s)
                    for each in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


async def _answer(broker: Broker, topic: str, index: int, offset: int, timeout_s: float) -> dict[str, Any]:
    low_watermark, error_code = NO_LOW_WATERMARK, ErrorCode.none
    try:
        low_watermark = await _delete(broker, topic, index, offset, timeout_s)
    except ApiError as error:
        error_code = error.code
    except StorageError:
        error_code = ErrorCode.kafka_storage_error
    return {"partition_index": index, "low_watermark": low_watermark, "error_code": error_code}


async def _delete(broker: Broker, topic: str, index: int, offset: int, timeout_s: float) -> int:
    partition = broker.partitions.require(topic, index)
    partition.check_is_leader()
    if is_coordinators(topic):
        raise ApiError(ErrorCode.invalid_topic_exception)
    if not partition.config.delete:
        raise ApiError(ErrorCode.policy_violation)
    if offset == HIGH_WATERMARK:
        offset = partition.high_watermark
    if not 0 <= offset <= partition.high_watermark:
        raise ApiError(ErrorCode.offset_out_of_range)
    if offset > partition.log_start_offset:
        await partition.delete_records_before(offset, timeout_s)
    return partition.log_start_offset
