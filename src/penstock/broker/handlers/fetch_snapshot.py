"""FetchSnapshot (59), version 1, between nodes: a piece of this node's snapshot of the metadata.

Kafka knows no snapshots of other topics. Of those, a follower asks here for the digest of a range (see
agreement.py), since no other request has room for all that: `position` is the first offset, that of the
snapshot id the end, and `current_leader_epoch` the epoch in which the node must lead. The answer's bytes are
the topic's id (16) and the digest (64). Whoever asks, no more is read for it than for a fetch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.broker.agreement import digest_here
from penstock.broker.quorum_requests import is_of_another_cluster
from penstock.controller.snapshot_transfer import PIECE_BYTES
from penstock.metadata.internal_topics import METADATA_TOPIC
from penstock.storage import StorageError
from penstock.types import ApiError, ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from kio.schema.fetch_snapshot.v1.request import FetchSnapshotRequest, PartitionSnapshot

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body


NOT_SAID = -1
NO_SNAPSHOT = {
    "snapshot_id": {"end_offset": NOT_SAID, "epoch": NOT_SAID},
    "current_leader": {"leader_id": NOT_SAID, "leader_epoch": NOT_SAID},
}


@api(59, 1, 1, between_nodes=True)
def fetch_snapshot(
    request: FetchSnapshotRequest, context: RequestContext
) -> Body | Coroutine[Any, Any, Body]:
    if is_of_another_cluster(context, request.cluster_id):
        return {"error_code": ErrorCode.inconsistent_cluster_id}
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return {"error_code": ErrorCode.invalid_request}
    if request.topics[0].name != METADATA_TOPIC:
        return _digest(request.topics[0].name, request.topics[0].partitions[0], context)
    answer = _piece(request.topics[0].partitions[0], context, request.max_bytes)
    return {"topics": [{"name": METADATA_TOPIC, "partitions": [answer]}]}


async def _digest(topic: str, asked: PartitionSnapshot, context: RequestContext) -> Body:
    answer = {"index": asked.partition, **NO_SNAPSHOT}
    epoch = asked.current_leader_epoch
    try:
        partition = context.broker.partitions.require(topic, asked.partition)
        digest = await digest_here(partition, asked.position, asked.snapshot_id.end_offset, epoch)
        answer |= {"error_code": ErrorCode.none, "unaligned_records": partition.topic_id.bytes + digest}
    except ApiError as error:
        answer["error_code"] = error.code
    except StorageError:  # not told here, where anybody may ask: scrubbing finds what rotted
        answer["error_code"] = ErrorCode.kafka_storage_error
    return {"topics": [{"name": topic, "partitions": [answer]}]}


def _piece(asked: PartitionSnapshot, context: RequestContext, size_max: int) -> dict[str, Any]:
    log = context.broker.controller.log
    wanted = (asked.snapshot_id.epoch, asked.snapshot_id.end_offset)
    if log.snapshot is None or wanted != tuple(log.snapshot.end):
        return {"index": 0, "error_code": ErrorCode.snapshot_not_found, **NO_SNAPSHOT}
    data = log.snapshot_bytes()
    if not 0 <= asked.position < len(data):
        return {"index": 0, "error_code": ErrorCode.position_out_of_range, **NO_SNAPSHOT}
    end = asked.position + max(1, min(size_max, PIECE_BYTES))
    return {
        "index": 0,
        "error_code": ErrorCode.none,
        "snapshot_id": {"end_offset": asked.snapshot_id.end_offset, "epoch": asked.snapshot_id.epoch},
        "current_leader": {"leader_id": NOT_SAID, "leader_epoch": NOT_SAID},
        "size": len(data),
        "position": asked.position,
        "unaligned_records": data[asked.position : end],
    }
