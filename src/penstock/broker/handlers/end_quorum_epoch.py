"""EndQuorumEpoch (54), version 1, between nodes: the leader of the metadata log gives up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.quorum_requests import refusal
from penstock.controller.quorum_wire import read_end
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.end_quorum_epoch.v1.request import EndQuorumEpochRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body


@api(54, 1, 1, between_nodes=True)
def end_quorum_epoch(request: EndQuorumEpochRequest, context: RequestContext) -> Body:
    refused = refusal(context, request.cluster_id, request.topics)
    if refused is not None:
        return refused
    driver = context.broker.controller.driver
    message = read_end(request.topics[0].partitions[0])
    driver.hear(lambda now_ms: driver.core.end_epoch(message, now_ms))
    return {}
