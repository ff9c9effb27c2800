"""DescribeGroups (15), versions 0–5: state, members and assignments of groups.

A group that is not known is answered as Dead, without an error. Metadata and assignments are shown of stable
groups only: in a rebalance they belong to no generation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.answers import OPERATIONS_NOT_ASKED
from penstock.groups.states import GroupState
from penstock.types import ApiError, ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.describe_groups.v5.request import DescribeGroupsRequest

    from penstock.broker.context import RequestContext
    from penstock.groups.group import Group
    from penstock.wire.shapes import Body

ALL_GROUP_OPERATIONS: Final = sum(1 << code for code in (3, 6, 8))  # read, delete, describe


@api(15, 0, 5)
def describe_groups(request: DescribeGroupsRequest, context: RequestContext) -> Body:
    operations = ALL_GROUP_OPERATIONS if request.include_authorized_operations else OPERATIONS_NOT_ASKED
    return {
        "groups": [
            {"group_id": group_id, "authorized_operations": operations, **_describe(group_id, context)}
            for group_id in request.groups
        ]
    }


def _describe(group_id: str, context: RequestContext) -> Body:
    try:
        group = context.broker.groups.maybe_group(group_id)
    except ApiError as error:
        return {"error_code": error.code}
    if group is None:
        return {"error_code": ErrorCode.none, "group_state": GroupState.DEAD.value}
    return {
        "error_code": ErrorCode.none,
        "group_state": group.state.value,
        "protocol_type": group.protocol_type or "",
        "protocol_data": (group.protocol_name or "") if group.state is GroupState.STABLE else "",
        "members": _members(group),
    }


def _members(group: Group) -> list[Body]:
    is_stable = group.state is GroupState.STABLE
    return [
        {
            "member_id": member.member_id,
            "group_instance_id": member.group_instance_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "member_metadata": member.metadata_for(group.protocol_name) if is_stable else b"",
            "member_assignment": member.assignment if is_stable else b"",
        }
        for member in group.roster
    ]
