"""Fetch (1), version 17, between nodes: followers pull what leaders have, and thereby say what they have.

Topics are named by their ids, so that one that was deleted and created again never mixes with the old one. A
fetch waits, without polling, until there is something to say: bytes, another high watermark, another start of
the log. The metadata log is fetched in the same way, alone in its request, and answered by the quorum.

Requests and answers are incremental (KIP-227, see replication/fetch_session.py). A connection has at most one
session, which is nobody else's and ends with it.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from penstock.broker.quorum_requests import is_of_another_cluster
from penstock.broker.replica_session import ReplicaSession
from penstock.broker.replica_wire import read_bytes_max, read_fetch
from penstock.broker.reply import EncodedBody
from penstock.controller import quorum_wire
from penstock.controller.metadata_log import METADATA_TOPIC_ID
from penstock.replication.fetch_session import ID_MAX, NO_SESSION, WITHOUT_SESSION
from penstock.replication.leader import Member
from penstock.types import ErrorCode
from penstock.wire.registry import api
from penstock.wire.replica_fetch import write_response

if TYPE_CHECKING:
    from kio.schema.fetch.v17.request import FetchRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body

_session_count = itertools.count()
"""Of the process, so that no two connections have sessions of the same id."""


@api(1, 17, 17, between_nodes=True)
async def replica_fetch(request: FetchRequest, context: RequestContext) -> EncodedBody | Body:
    if is_of_another_cluster(context, request.cluster_id):
        return {"error_code": ErrorCode.inconsistent_cluster_id}
    if request.topics and request.topics[0].topic_id == METADATA_TOPIC_ID:
        if len(request.topics[0].partitions) != 1:
            return {"error_code": ErrorCode.invalid_request}
        message = quorum_wire.read_fetch(request.replica_state.replica_id, request.topics[0].partitions[0])
        return await context.broker.controller.driver.fetch(message)
    session = _begin_or_go_on(request, context)
    if isinstance(session, ErrorCode):
        return EncodedBody(write_response([], error_code=session))
    try:
        return await _answer(session, request, context)
    finally:
        if session is not context.connection.replica_session:
            session.close()


def _begin_or_go_on(request: FetchRequest, context: RequestContext) -> ReplicaSession | ErrorCode:
    """The session that the request belongs to, having heard what it says."""
    wanted = read_fetch(request)
    present = context.connection.replica_session
    if wanted.is_full:
        if present is not None:
            present.close()
        new_id = NO_SESSION if wanted.epoch == WITHOUT_SESSION else 1 + next(_session_count) % ID_MAX
        session = ReplicaSession(context.broker, new_id)
        context.connection.replica_session = None if new_id == NO_SESSION else session
    elif present is None:
        return ErrorCode.fetch_session_id_not_found
    else:
        session = present
    error = session.maybe_refuse(wanted)
    if error is not None:
        return error
    replica = request.replica_state
    session.update(wanted, Member(replica.replica_id, replica.replica_epoch), read_bytes_max(request))
    return session


async def _answer(session: ReplicaSession, request: FetchRequest, context: RequestContext) -> EncodedBody:
    limits = context.broker.config.limits
    room = min(request.max_bytes, limits.fetch_response_bytes_max)
    now_ms = context.broker.monotonic_ms
    wait_ms = min(int(request.max_wait.total_seconds() * 1000), limits.fetch_wait_ms_max)
    deadline_ms = now_ms() + wait_ms
    news = session.read(room)
    while not news and (left_ms := deadline_ms - now_ms()) > 0:
        await session.wait(left_ms / 1000)
        news = session.read(room)
    return EncodedBody(write_response(list(news.items()), session_id=session.id))
