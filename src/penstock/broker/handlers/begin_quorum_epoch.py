"""BeginQuorumEpoch (53), version 1, between nodes: a new leader of the metadata log says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.quorum_requests import refusal
from penstock.controller.quorum_wire import read_begin
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.begin_quorum_epoch.v1.request import BeginQuorumEpochRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body


@api(53, 1, 1, between_nodes=True)
def begin_quorum_epoch(request: BeginQuorumEpochRequest, context: RequestContext) -> Body:
    refused = refusal(context, request.cluster_id, request.topics, voter_id=request.voter_id)
    if refused is not None:
        return refused
    driver = context.broker.controller.driver
    message = read_begin(request.topics[0].partitions[0])
    driver.hear(lambda now_ms: driver.core.begin_epoch(message, now_ms))
    return {}
