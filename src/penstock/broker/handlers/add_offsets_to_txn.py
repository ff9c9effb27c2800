"""AddOffsetsToTxn (25), versions 0–3: the transaction is about to commit offsets of a group.

The partition of `__consumer_offsets` that holds the group becomes part of the transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.answers import fenced
from penstock.transactions.messages import Identity
from penstock.types import ApiError
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.add_offsets_to_txn.v3.request import AddOffsetsToTxnRequest

    from penstock.broker.context import RequestContext
    from penstock.types import ErrorCode
    from penstock.wire.shapes import Body

FENCED_FROM: Final = 2


@api(25, 0, 3)
async def add_offsets_to_txn(request: AddOffsetsToTxnRequest, context: RequestContext) -> Body:
    error = await _add(request, context)
    return {"error_code": fenced(error, context.api_version >= FENCED_FROM)}


async def _add(request: AddOffsetsToTxnRequest, context: RequestContext) -> ErrorCode:
    broker = context.broker
    who = Identity(request.transactional_id, request.producer_id, request.producer_epoch)
    try:
        await broker.groups.ensure_topic()
        where = broker.groups.partition_of(request.group_id)
        return await broker.transactions.add_partitions(who, frozenset({where}))
    except ApiError as error:
        return error.code
