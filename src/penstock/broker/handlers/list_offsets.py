"""ListOffsets (2), versions 1–7: the first, the last, or the offset at a time.

Timestamps below 0 are names: -1 the high watermark, -2 the start of the log, -3 (version 7) the record with
the largest timestamp. Others find the first record at or after that time; offset -1 says there is none.
Nothing at or after the high watermark is found, and with isolation level 1 (read_committed) nothing at or
after the last stable offset. To replica id -2, Kafka's for debugging, any replica tells where its log ends.

A lookup by time goes through the log's time index and opens a batch or two: it is done on the event loop,
which owns the log.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from penstock.storage import StorageError
from penstock.types import ApiError, ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.list_offsets.v7.request import ListOffsetsPartition, ListOffsetsRequest

    from penstock.broker.context import RequestContext
    from penstock.broker.partition import Partition
    from penstock.wire.shapes import Body

READ_COMMITTED = 1
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
MAX_TIMESTAMP_FROM = 7
OFFSET_NOT_AVAILABLE_FROM = 5
DEBUGGING_REPLICA_ID = -2

NOT_FOUND = {"timestamp": -1, "offset": -1, "leader_epoch": -1}


@api(2, 1, 7)
def list_offsets(request: ListOffsetsRequest, context: RequestContext) -> Body:
    asked = Counter(
        (topic.name, each.partition_index) for topic in request.topics for each in topic.partitions
    )
    answers = []
    for topic in request.topics:
        partitions = []
        for wanted in topic.partitions:
            is_repeated = asked[topic.name, wanted.partition_index] > 1
            partitions.append(_answer(context, topic.name, wanted, is_repeated, request))
        answers.append({"name": topic.name, "partitions": partitions})
    return {"topics": answers}


def _answer(
    context: RequestContext,
    topic: str,
    wanted: ListOffsetsPartition,
    is_repeated: bool,
    request: ListOffsetsRequest,
) -> dict[str, Any]:
    error_code, found = ErrorCode.none, NOT_FOUND
    try:
        if is_repeated:
            raise ApiError(ErrorCode.invalid_request)
        partition = context.broker.partitions.require(topic, wanted.partition_index)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        if request.replica_id == DEBUGGING_REPLICA_ID and wanted.timestamp == LATEST:
            log = partition.log
            found = {"timestamp": -1, "offset": log.log_end_offset, "leader_epoch": log.epochs.latest}
        else:
            found = _find(partition, wanted.timestamp, request.isolation_level, context.api_version)
    except ApiError as error:
        error_code = error.code
    except StorageError:
        error_code = ErrorCode.kafka_storage_error
    return {"partition_index": wanted.partition_index, "error_code": error_code, **found}


def _check_serves_offsets(partition: Partition, version: int) -> None:
    try:
        partition.check_serves_offsets()
    except ApiError as error:
        if error.code is ErrorCode.offset_not_available and version < OFFSET_NOT_AVAILABLE_FROM:
            raise ApiError(ErrorCode.leader_not_available) from error
        raise


def _find(partition: Partition, timestamp: int, isolation_level: int, version: int) -> dict[str, int]:
    if timestamp == EARLIEST:
        partition.check_is_leader()
    else:
        _check_serves_offsets(partition, version)
    is_committed_only = isolation_level == READ_COMMITTED
    end_offset = partition.last_stable_offset if is_committed_only else partition.high_watermark
    log = partition.log
    if timestamp == LATEST:
        return {"timestamp": -1, "offset": end_offset, "leader_epoch": partition.leader_epoch}
    if timestamp == EARLIEST:
        start = partition.log_start_offset
        epoch = log.epochs.epoch_at(start)
        return {"timestamp": -1, "offset": start, "leader_epoch": epoch}
    if timestamp == MAX_TIMESTAMP and version >= MAX_TIMESTAMP_FROM:
        found = log.max_timestamp(end_offset=end_offset)
    elif timestamp >= 0:
        found = log.find_by_time(timestamp, end_offset=end_offset)
    else:
        raise ApiError(ErrorCode.unsupported_version)
    if found is None:
        return NOT_FOUND
    return {"timestamp": found.timestamp, "offset": found.offset, "leader_epoch": found.leader_epoch}
