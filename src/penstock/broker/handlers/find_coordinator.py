"""FindCoordinator (10), versions 0–4: which broker coordinates a group or a transactional id.

It leads the partition of the coordinator's topic that the key belongs to. The topic is created when somebody
asks for the first time. From version 4 on a request names several keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.types import ApiError, ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body

GROUP, TRANSACTION = 0, 1

BATCH_VERSION: Final = 4


@api(10, 0, 4)
async def find_coordinator(request: FindCoordinatorRequest, context: RequestContext) -> Body:
    if context.api_version < BATCH_VERSION:
        return await _coordinator(request.key_type, context.raw.key, context)
    return {
        "coordinators": [
            {"key": key, **await _coordinator(request.key_type, key, context)}
            for key in request.coordinator_keys
        ]
    }


async def _coordinator(key_type: int, key: str, context: RequestContext) -> Body:
    broker = context.broker
    try:
        if key_type == GROUP:
            node = await broker.groups.coordinator(key)
        elif key_type == TRANSACTION:
            node = await broker.transactions.coordinator(key)
        else:
            raise ApiError(ErrorCode.invalid_request, f"unknown key type {key_type}")
    except ApiError as error:
        return {
            "error_code": error.code, "error_message": error.message, "node_id": -1, "host": "", "port": -1,
        }  # fmt: skip
    return {"error_code": ErrorCode.none, "node_id": node.id, "host": node.host, "port": node.port}
