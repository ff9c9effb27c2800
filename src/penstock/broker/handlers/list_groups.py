"""ListGroups (16), versions 0–5: the groups that this broker coordinates.

Filters by state from version 4 on, by type from 5 on; both without regard to case, and empty ones let
everything pass. All groups here are of type Classic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.types import ApiError, ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.list_groups.v5.request import ListGroupsRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body

GROUP_TYPE: Final = "Classic"


@api(16, 0, 5)
async def list_groups(request: ListGroupsRequest, context: RequestContext) -> Body:
    await context.broker.groups.load_all()
    try:
        groups = context.broker.groups.groups()
    except ApiError as error:
        return {"error_code": error.code, "groups": ()}
    if not _passes(GROUP_TYPE, request.types_filter):
        groups = []
    return {
        "error_code": ErrorCode.none,
        "groups": [
            {
                "group_id": group.group_id,
                "protocol_type": group.protocol_type or "",
                "group_state": group.state.value,
                "group_type": GROUP_TYPE,
            }
            for group in groups
            if _passes(group.state.value, request.states_filter)
        ],
    }


def _passes(name: str, wanted: tuple[str, ...]) -> bool:
    return not wanted or name.lower() in {one.lower() for one in wanted}
