"""AllocateProducerIds (67), version 0, between nodes: a block of ids for a broker to hand out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.controller.producer_ids import PRODUCER_ID_BLOCK
from penstock.types import ApiError, ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body


@api(67, 0, 0, between_nodes=True)
async def allocate_producer_ids(request: AllocateProducerIdsRequest, context: RequestContext) -> Body:
    try:
        block = await context.broker.controller.allocate_producer_ids(request.broker_id, PRODUCER_ID_BLOCK)
    except ApiError as error:
        return {"error_code": error.code}
    return {
        "error_code": ErrorCode.none,
        "producer_id_start": block.start,
        "producer_id_len": len(block),
    }
