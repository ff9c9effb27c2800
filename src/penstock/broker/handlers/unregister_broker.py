"""UnregisterBroker (64), version 0: a broker leaves the cluster for good.

What it holds is moved to the others first: the request begins that and is answered REASSIGNMENT_IN_PROGRESS
with how much is left; repeated until nothing is, it removes the broker. Nothing is ever less replicated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.answers import error_fields
from penstock.types import ApiError
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body


@api(64, 0, 0, forwarded=True)
async def unregister_broker(request: UnregisterBrokerRequest, context: RequestContext) -> Body:
    try:
        await context.controller.decommission(request.broker_id)
    except ApiError as error:
        return error_fields(error)
    return error_fields(None)
