"""DeleteGroups (42), versions 0–2: remove groups without members, and their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.types import ApiError, ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.delete_groups.v2.request import DeleteGroupsRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body


@api(42, 0, 2)
async def delete_groups(request: DeleteGroupsRequest, context: RequestContext) -> Body:
    return {
        "results": [
            {"group_id": group_id, "error_code": await _delete(group_id, context)}
            for group_id in request.groups_names
        ]
    }


async def _delete(group_id: str, context: RequestContext) -> ErrorCode:
    try:
        return await context.broker.groups.delete_group(group_id)
    except ApiError as error:
        return error.code
