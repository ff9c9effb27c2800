"""LeaveGroup (13), versions 0–5: members go at once, without waiting for their sessions to end.

Before version 3 a member leaves by itself and its outcome is the request's; from then on several can be
named, static ones by their instance id alone, each with an outcome of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.groups.messages import LeaveReply, LeavingMember
from penstock.types import ApiError, ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.leave_group.v5.request import LeaveGroupRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body

BATCH_VERSION: Final = 3


@api(13, 0, 5)
async def leave_group(request: LeaveGroupRequest, context: RequestContext) -> Body:
    if context.api_version < BATCH_VERSION:
        leaving = [LeavingMember(context.raw.member_id)]
    else:
        leaving = [LeavingMember(one.member_id, one.group_instance_id) for one in request.members]
    try:
        reply = await context.broker.groups.leave(request.group_id, leaving)
    except ApiError as error:
        reply = LeaveReply(error.code)
    if context.api_version < BATCH_VERSION:
        outcomes = (reply.error, *reply.members)
        return {"error_code": next((one for one in outcomes if one is not ErrorCode.none), ErrorCode.none)}
    return {
        "error_code": reply.error,
        "members": [
            {"member_id": one.member_id, "group_instance_id": one.group_instance_id, "error_code": error_code}
            for one, error_code in zip(leaving, reply.members, strict=False)  # none if all were refused
        ],
    }
