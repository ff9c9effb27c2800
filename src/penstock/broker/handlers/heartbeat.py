"""Heartbeat (12), versions 0–4: a member lives, and asks whether the group rebalances.

A coordinator that still loads its log does not know its members, and believes them, as Kafka does: clients
take COORDINATOR_LOAD_IN_PROGRESS in answer to a heartbeat for the end of it (aiokafka's heartbeats stop).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.types import ApiError, ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.heartbeat.v4.request import HeartbeatRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body


@api(12, 0, 4)
def heartbeat(request: HeartbeatRequest, context: RequestContext) -> Body:
    try:
        error_code = context.broker.groups.heartbeat(
            request.group_id, request.member_id, request.group_instance_id, request.generation_id
        )
    except ApiError as error:
        is_loading = error.code is ErrorCode.coordinator_load_in_progress
        error_code = ErrorCode.none if is_loading else error.code
    return {"error_code": error_code}
