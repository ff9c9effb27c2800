"""Vote (52), version 2, between nodes: a vote, or a pre-vote, for the leader of the metadata log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.quorum_requests import refusal
from penstock.controller.quorum_wire import read_vote
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.vote.v2.request import VoteRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body


@api(52, 2, 2, between_nodes=True)
async def vote(request: VoteRequest, context: RequestContext) -> Body:
    refused = refusal(context, request.cluster_id, request.topics, voter_id=request.voter_id)
    if refused is not None:
        return refused
    return await context.broker.controller.driver.vote(read_vote(request.topics[0].partitions[0]))
