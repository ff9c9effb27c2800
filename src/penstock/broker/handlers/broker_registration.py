"""BrokerRegistration (62), version 4, between nodes: a broker's process takes its place in the cluster.

The storage id of its data folder travels as its only log directory; `previous_broker_epoch` -1 says that its
last stop may have cost it data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.quorum_requests import is_of_another_cluster
from penstock.metadata.brokers import Registration
from penstock.types import ApiError, ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body

UNCLEAN = -1
DAMAGED = -2
"""Beside Kafka's own: see Registration."""


@api(62, 4, 4, between_nodes=True)
async def broker_registration(request: BrokerRegistrationRequest, context: RequestContext) -> Body:
    if is_of_another_cluster(context, request.cluster_id):
        return {"error_code": ErrorCode.inconsistent_cluster_id, "broker_epoch": -1}
    registration = maybe_registration(request)
    if registration is None:
        return {"error_code": ErrorCode.invalid_request, "broker_epoch": -1}
    try:
        broker_epoch = await context.broker.controller.active.register(registration)
    except ApiError as error:
        return {"error_code": error.code, "broker_epoch": -1}
    return {"error_code": ErrorCode.none, "broker_epoch": broker_epoch}


def maybe_registration(request: BrokerRegistrationRequest) -> Registration | None:
    """None if the request lacks what a broker must have."""
    if len(request.listeners) != 1 or len(request.log_dirs) != 1:
        return None
    (listener,), (storage_id,) = request.listeners, request.log_dirs
    if storage_id is None or request.incarnation_id is None:
        return None
    return Registration(
        request.broker_id,
        request.incarnation_id,
        storage_id,
        listener.host,
        listener.port,
        request.rack,
        is_clean=request.previous_broker_epoch not in (UNCLEAN, DAMAGED),
        is_damaged=request.previous_broker_epoch == DAMAGED,
    )
