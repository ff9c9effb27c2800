"""InitProducerId (22), versions 0–4: an id and epoch for an idempotent or transactional producer.

A producer without a transactional id gets a fresh id with epoch 0 each time, also when it asks for a higher
epoch of the one it has (from version 3 on): a new id serves the same purpose.

With a transactional id it becomes the owner of that: the epoch rises, which fences whoever had it before, and
a transaction that was left open is aborted first; until that is done the answer is CONCURRENT_TRANSACTIONS,
and clients ask again.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from penstock.broker.answers import fenced
from penstock.transactions.messages import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, InitRequest, Reply
from penstock.types import ApiError, ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.init_producer_id.v4.request import InitProducerIdRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body

MILLISECOND: Final = timedelta(milliseconds=1)
FENCED_FROM: Final = 4


@api(22, 0, 4)
async def init_producer_id(request: InitProducerIdRequest, context: RequestContext) -> Body:
    try:
        reply = await _init(request, context)
    except ApiError as error:
        reply = Reply(error.code)
    return {
        "error_code": fenced(reply.error, context.api_version >= FENCED_FROM),
        "producer_id": reply.producer_id,
        "producer_epoch": reply.producer_epoch,
    }


async def _init(request: InitProducerIdRequest, context: RequestContext) -> Reply:
    broker = context.broker
    has_id, has_epoch = request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_PRODUCER_EPOCH
    if request.transactional_id == "" or has_id != has_epoch:
        return Reply(ErrorCode.invalid_request)
    if request.transactional_id is None:
        return Reply(ErrorCode.none, await broker.producer_ids.next(), 0)
    broker.transactions.shard(request.transactional_id)  # before an id is spent
    return await broker.transactions.init(
        InitRequest(
            transactional_id=request.transactional_id,
            timeout_ms=request.transaction_timeout // MILLISECOND,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            fresh_producer_id=await broker.producer_ids.next(),
        )
    )
