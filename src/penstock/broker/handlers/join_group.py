"""JoinGroup (11), versions 0–9: become or stay a member of a group, and learn the next generation.

The answer waits until the group has gathered. Version 0 knows one timeout for session and rebalance; from 4
on a dynamic member is first given its id, from 9 on a returning static leader can skip the assignment.
"""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from penstock.groups.messages import JoinReply, JoinRequest
from penstock.types import ApiError
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.join_group.v9.request import JoinGroupRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body

MILLISECOND: Final = timedelta(milliseconds=1)
KNOWN_MEMBER_ID_VERSION: Final = 4
NULLABLE_PROTOCOL_NAME_VERSION: Final = 7
SKIP_ASSIGNMENT_VERSION: Final = 9


@api(11, 0, 9)
async def join_group(request: JoinGroupRequest, context: RequestContext) -> Body:
    try:
        reply = await context.broker.groups.join(request.group_id, _asked(request, context))
    except ApiError as error:
        reply = JoinReply(error=error.code, member_id=request.member_id)
    protocol_name = reply.protocol_name
    if protocol_name is None and context.api_version < NULLABLE_PROTOCOL_NAME_VERSION:
        protocol_name = ""
    return {
        "error_code": reply.error,
        "generation_id": reply.generation_id,
        "protocol_type": reply.protocol_type,
        "protocol_name": protocol_name,
        "leader": reply.leader,
        "skip_assignment": reply.skip_assignment,
        "member_id": reply.member_id,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "metadata": member.metadata,
            }
            for member in reply.members
        ],
    }


def _asked(request: JoinGroupRequest, context: RequestContext) -> JoinRequest:
    session_timeout_ms = request.session_timeout // MILLISECOND
    rebalance_timeout_ms = request.rebalance_timeout // MILLISECOND
    return JoinRequest(
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        client_id=context.client_id,
        client_host=context.client_host,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=session_timeout_ms if rebalance_timeout_ms < 0 else rebalance_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        requires_known_member_id=context.api_version >= KNOWN_MEMBER_ID_VERSION,
        supports_skipping_assignment=context.api_version >= SKIP_ASSIGNMENT_VERSION,
        fresh_member_id=f"{request.group_instance_id or context.client_id}-{uuid.uuid4()}",
    )
