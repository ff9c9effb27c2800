"""EndTxn (26), versions 0–3: commit or abort.

Answered when the outcome is in the coordinator's log: from there on nothing can change it. Markers follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.answers import fenced
from penstock.transactions.messages import Identity
from penstock.types import ApiError
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.end_txn.v3.request import EndTxnRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body

FENCED_FROM: Final = 2


@api(26, 0, 3)
async def end_txn(request: EndTxnRequest, context: RequestContext) -> Body:
    who = Identity(request.transactional_id, request.producer_id, request.producer_epoch)
    try:
        error = await context.broker.transactions.end(who, is_commit=request.committed)
    except ApiError as refusal:
        error = refusal.code
    return {"error_code": fenced(error, context.api_version >= FENCED_FROM)}
