"""SyncGroup (14), versions 0–5: a member's part of the leader's assignment; the leader brings it along.

The answer waits for the leader's assignment to be written. From version 5 on a member must say which
protocol it believes was chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.groups.messages import SyncReply, SyncRequest
from penstock.types import ApiError, ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.sync_group.v5.request import SyncGroupRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body

MANDATORY_PROTOCOL_VERSION: Final = 5


@api(14, 0, 5)
async def sync_group(request: SyncGroupRequest, context: RequestContext) -> Body:
    try:
        if context.api_version >= MANDATORY_PROTOCOL_VERSION and (
            request.protocol_type is None or request.protocol_name is None
        ):
            raise ApiError(ErrorCode.inconsistent_group_protocol)
        reply = await context.broker.groups.sync(request.group_id, _asked(request))
    except ApiError as error:
        reply = SyncReply(error=error.code)
    return {
        "error_code": reply.error,
        "protocol_type": reply.protocol_type,
        "protocol_name": reply.protocol_name,
        "assignment": reply.assignment,
    }


def _asked(request: SyncGroupRequest) -> SyncRequest:
    return SyncRequest(
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation_id=request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments={one.member_id: bytes(one.assignment) for one in request.assignments},
    )
