"""DescribeLogDirs (35), versions 1–4: the size of each partition, and of the disk (version 4).

There is one data folder. Partitions that are not on this broker are left out, as Kafka leaves them out.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from typing import TYPE_CHECKING, Any

from penstock.types import ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from pathlib import Path

    from kio.schema.describe_log_dirs.v4.request import DescribeLogDirsRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body


@api(35, 1, 4)
async def describe_log_dirs(request: DescribeLogDirsRequest, context: RequestContext) -> Body:
    broker = context.broker
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    topics: dict[str, list[dict[str, Any]]] = {}
    for partition in broker.partitions:
        if wanted is None or (partition.topic, partition.index) in wanted:
            topics.setdefault(partition.topic, []).append(
                {"partition_index": partition.index, "partition_size": partition.log.size_bytes}
            )
    if broker.config.storage == "file":
        # The file system may be slow to answer, on a network for instance.
        folder = await asyncio.get_running_loop().run_in_executor(None, _folder, broker.config.data)
    else:
        # Of an address nothing but its scheme: the rest may hold a password.
        kind = broker.config.storage.partition(":")[0]
        folder = {"error_code": ErrorCode.none, "log_dir": kind}
    listed = [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
    return {"error_code": ErrorCode.none, "results": [{**folder, "topics": listed}]}


def _folder(path: Path) -> dict[str, Any]:
    answer = {"error_code": ErrorCode.none, "log_dir": os.path.abspath(path)}
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return answer | {"error_code": ErrorCode.kafka_storage_error}
    return answer | {"total_bytes": usage.total, "usable_bytes": usage.free}
