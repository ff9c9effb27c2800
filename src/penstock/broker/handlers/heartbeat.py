"""Heartbeat (12), versions 0–4: a member lives, and asks whether the group rebalances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.types import ApiError
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
        error_code = error.code
    return {"error_code": error_code}
