"""BrokerHeartbeat (63), version 1, between nodes: a broker is there, and how far it knows the metadata.

The field for offline log directories names the replicas that are out of service: see metadata/brokers.py. A
tagged field of Penstock's own says how busy the broker is: see broker/load_meter.py.

The connection is remembered as the broker's: when it breaks, the controller looks if the process is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.types import ApiError, ErrorCode
from penstock.wire.broker_heartbeat import HeartbeatRequest, read_request
from penstock.wire.registry import api

if TYPE_CHECKING:
    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body


@api(63, 1, 1, decoder=read_request, between_nodes=True)
def broker_heartbeat(request: HeartbeatRequest, context: RequestContext) -> Body:
    try:
        reply = context.broker.controller.active.heartbeat(request)
    except ApiError as error:
        return {"error_code": error.code}
    context.connection.heartbeats_of = (request.broker_id, request.broker_epoch)
    return {
        "error_code": ErrorCode.none,
        "is_caught_up": reply.is_caught_up,
        "is_fenced": reply.is_fenced,
        "should_shut_down": reply.should_shut_down,
    }
