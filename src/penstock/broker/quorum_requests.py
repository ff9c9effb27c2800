"""What is checked of every request that concerns the quorum, before the core hears of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.metadata.internal_topics import METADATA_TOPIC
from penstock.types import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body


def refusal(
    context: RequestContext, cluster_id: str | None, topics: Sequence[Any], *, voter_id: int | None = None
) -> Body | None:
    """The answer to a request that is not for this node; None if it is."""
    if is_of_another_cluster(context, cluster_id):
        return {"error_code": ErrorCode.inconsistent_cluster_id}
    if voter_id not in (None, context.broker.config.node_id):
        return {"error_code": ErrorCode.invalid_voter_key}
    if len(topics) != 1 or topics[0].topic_name != METADATA_TOPIC or len(topics[0].partitions) != 1:
        return {"error_code": ErrorCode.invalid_request}
    return None


def is_of_another_cluster(context: RequestContext, cluster_id: str | None) -> bool:
    """Who has no cluster yet may join any."""
    mine = context.broker.cluster_id
    return bool(cluster_id and mine and cluster_id != mine)
