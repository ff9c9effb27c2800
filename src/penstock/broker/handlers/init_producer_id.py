"""InitProducerId (22), versions 0–4: an id for an idempotent producer.

A producer without a transactional id gets a fresh id with epoch 0 each time, also when it asks for a higher
epoch of the one it has (from version 3 on): a new id serves the same purpose.

Not done: transactions. TRANSACTIONAL_ID_AUTHORIZATION_FAILED is the answer that the known clients take for
final, on this request and in every version; others they repeat until they time out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.types import ApiError, ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.init_producer_id.v4.request import InitProducerIdRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


@api(22, 0, 4)
async def init_producer_id(request: InitProducerIdRequest, context: RequestContext) -> Body:
    error_code = _refusal(request)
    producer_id, producer_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
    if error_code is ErrorCode.none:
        try:
            producer_id, producer_epoch = await context.broker.producer_ids.next(), 0
        except ApiError as error:
            error_code = error.code
    return {"error_code": error_code, "producer_id": producer_id, "producer_epoch": producer_epoch}


def _refusal(request: InitProducerIdRequest) -> ErrorCode:
    if request.transactional_id == "":
        return ErrorCode.invalid_request
    if request.transactional_id is not None:
        return ErrorCode.transactional_id_authorization_failed
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return ErrorCode.invalid_request
    return ErrorCode.none
