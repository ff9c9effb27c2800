"""`/v1/groups`: consumer groups, their members and how far behind they are."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.gateway.errors import ApiFailure
from penstock.gateway.routes import documentation as doc
from penstock.gateway.routes.answers import json_answer
from penstock.gateway.state import gateway_of

if TYPE_CHECKING:
    from penstock.gateway.kafka.admin import GroupDescription, KafkaAdmin

router = APIRouter(prefix="/v1/groups", tags=["groups"])

AT_ONCE: Final = 8
"""Groups that are asked for at the same time."""
NAME_LENGTH_MAX: Final = 1_000


@router.get(
    "",
    summary="List consumer groups with their lag",
    responses=doc.responses("All groups", doc.thing(groups=doc.several(doc.GROUP))),
)
async def list_groups(request: Request) -> Response:
    admin = gateway_of(request).kafka.admin
    asking = asyncio.Semaphore(AT_ONCE)

    async def one(group: str) -> dict[str, Any]:
        async with asking:
            return group_fields(await admin.describe_group(group))

    names = [each.group for each in await admin.groups()]
    return json_answer({"groups": await asyncio.gather(*map(one, names))})


@router.get(
    "/{group}",
    summary="A consumer group",
    responses=doc.responses("The group", doc.GROUP, 404),
)
async def describe_group(request: Request, group: str) -> Response:
    admin = gateway_of(request).kafka.admin
    if not 0 < len(group) <= NAME_LENGTH_MAX:
        raise ApiFailure(400, "that is not a name of a group")
    await check_known(admin, group)
    return json_answer(group_fields(await admin.describe_group(group)))


async def check_known(admin: KafkaAdmin, group: str) -> None:
    """A group that nobody has heard of is described as one without members."""
    if all(each.group != group for each in await admin.groups()):
        raise ApiFailure(404, f"there is no group {group!r}")


def group_fields(group: GroupDescription) -> dict[str, Any]:
    return {
        "group": group.group,
        "state": group.state,
        "assignor": group.assignor,
        "members": list(group.members),
        "lag": sum(each.lag or 0 for each in group.partitions),
        "partitions": [asdict(each) for each in group.partitions],
    }
