"""BrokerHeartbeat (63), version 1, between nodes: a broker is there, and how far it knows the metadata.

The field for offline log directories names the replicas that are out of service: see metadata/brokers.py.

The connection is remembered as the broker's: when it breaks, the controller looks if the process is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.types import ApiError, ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.broker_heartbeat.v1.request import BrokerHeartbeatRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body


@api(63, 1, 1, between_nodes=True)
def broker_heartbeat(request: BrokerHeartbeatRequest, context: RequestContext) -> Body:
    try:
        reply = context.broker.controller.active.heartbeat(
            request.broker_id,
            request.broker_epoch,
            request.current_metadata_offset,
            wants_to_stop=request.want_shut_down,
            offline=frozenset(each for each in request.offline_log_dirs if each is not None),
        )
    except ApiError as error:
        return {"error_code": error.code}
    context.connection.heartbeats_of = (request.broker_id, request.broker_epoch)
    return {
        "error_code": ErrorCode.none,
        "is_caught_up": reply.is_caught_up,
        "is_fenced": reply.is_fenced,
        "should_shut_down": reply.should_shut_down,
    }
