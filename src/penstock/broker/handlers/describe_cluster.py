"""DescribeCluster (60), versions 0–1: the cluster's id, its brokers and its controller.

Controllers are not listed apart from brokers (endpoint type 2): none is reachable on its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.answers import (
    ALL_CLUSTER_OPERATIONS,
    OPERATIONS_NOT_ASKED,
    endpoint_fields,
    error_fields,
)
from penstock.types import ApiError, ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.describe_cluster.v1.request import DescribeClusterRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body

BROKERS = 1
CONTROLLERS = 2


@api(60, 0, 1)
def describe_cluster(request: DescribeClusterRequest, context: RequestContext) -> Body:
    broker = context.broker
    if request.endpoint_type != BROKERS:
        error = ApiError(
            ErrorCode.unsupported_endpoint_type, f"unknown endpoint type {request.endpoint_type}"
        )
        if request.endpoint_type == CONTROLLERS:
            error = ApiError(ErrorCode.mismatched_endpoint_type, "this endpoint is that of a broker")
        return {"cluster_id": broker.cluster_id, "endpoint_type": BROKERS, **error_fields(error)}
    with_operations = request.include_cluster_authorized_operations
    return {
        "cluster_id": broker.cluster_id,
        "endpoint_type": BROKERS,
        "controller_id": broker.config.node_id,
        "brokers": [
            {"broker_id": each.id, **endpoint_fields(each)} for each in broker.controller.image.live_brokers()
        ],
        "cluster_authorized_operations": ALL_CLUSTER_OPERATIONS if with_operations else OPERATIONS_NOT_ASKED,
    }
