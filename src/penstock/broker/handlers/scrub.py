"""DescribeLogDirs (35), version 5, from `penstock cluster scrub`: scrub a topic or all, tell what was found.

A request begins a round, or tells of the one that it began; repeated until nothing is left, it tells of its
end. The first result has no folder: `total_bytes` are those of the round, `usable_bytes` those that are left.
Each other one is a damaged stretch: its file, topic and partition, `partition_size` its bytes, `offset_lag`
the offset at which it begins; `total_bytes` is -1, or the id of the leader that it differs from. Kafka has no
such request; its clients are not told of this version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.types import ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest

    from penstock.broker.context import RequestContext
    from penstock.broker.scrubber import Found
    from penstock.wire.shapes import Body

WAIT_S_MAX: Final = 1.0
FOUND_MAX: Final = 1_000


@api(35, 5, 5, between_nodes=True)
async def scrub(request: DescribeLogDirsRequest, context: RequestContext) -> Body:
    topics = request.topics
    if topics is not None and len(topics) != 1:
        return {"error_code": ErrorCode.invalid_request, "results": ()}
    current = await context.broker.scrubber.ask(None if topics is None else topics[0].topic, WAIT_S_MAX)
    progress = {
        "error_code": ErrorCode.none,
        "log_dir": "",
        "topics": (),
        "total_bytes": current.bytes_total,
        "usable_bytes": current.bytes_left,
    }
    return {"error_code": ErrorCode.none, "results": [progress, *map(_damage, current.found()[:FOUND_MAX])]}


def _damage(found: Found) -> Body:
    partition = {
        "partition_index": found.partition,
        "partition_size": found.damage.size,
        "offset_lag": found.damage.first_offset,
        "is_future_key": False,
    }
    return {
        "error_code": ErrorCode.kafka_storage_error,
        "log_dir": found.damage.file,
        "topics": [{"name": found.topic, "partitions": [partition]}],
        "total_bytes": found.differs_from,
    }
