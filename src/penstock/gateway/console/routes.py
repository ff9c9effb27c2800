"""`GET /v1/console`: what the console has to know before it shows anything.

Open to everybody, as the console's files are: it says which cluster this is and what can be tried, so that
the console can ask for a token before anything else. The answer also makes the browser a viewer.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock import __version__
from penstock.gateway.console.viewer import viewers_of
from penstock.gateway.errors import ApiFailure
from penstock.gateway.kafka.errors import KafkaClientError
from penstock.gateway.kafka.questions import MetadataQuestion
from penstock.gateway.routes import documentation as doc
from penstock.gateway.routes.answers import json_answer
from penstock.gateway.routes.faults import require_local
from penstock.gateway.state import gateway_of
from penstock.traffic.topics import HEATMAP
from penstock.types import ErrorCode

if TYPE_CHECKING:
    from penstock.gateway.kafka.clients import Kafka

router = APIRouter(prefix="/v1/console", tags=["console"])

ASK_S_MAX: Final = 2.0
"""A console without brokers shows that there are none; it does not wait for them."""
THERE: Final = (ErrorCode.none, ErrorCode.leader_not_available)
CONSOLE: Final = doc.thing(
    version=doc.TEXT,
    cluster_id={**doc.TEXT_OR_NULL, "description": "null while no broker answers"},
    local={
        **doc.FLAG,
        "description": "whether the cluster's processes are on this machine: faults can be tried",
    },
    traffic={**doc.FLAG, "description": "whether there is a heat map to show"},
    auth={**doc.FLAG, "description": "whether tokens are asked for"},
)


class Cluster(NamedTuple):
    id: str | None
    has_heat_map: bool


@router.get("", summary="What the web console shows, and to whom", responses=doc.responses("This", CONSOLE))
async def console(request: Request) -> Response:
    gateway = gateway_of(request)
    cluster = await ask_cluster(gateway.kafka)
    response = json_answer(
        {
            "version": __version__,
            "cluster_id": cluster.id,
            "local": is_local(gateway.settings.admin_url),
            "traffic": cluster.has_heat_map,
            "auth": gateway.settings.http_token_file is not None,
        }
    )
    response.headers["cache-control"] = "no-store"
    viewers_of(request).welcome(request, response)
    return response


async def ask_cluster(kafka: Kafka) -> Cluster:
    try:
        async with asyncio.timeout(ASK_S_MAX):
            told = await kafka.reader.client.ask_anybody(MetadataQuestion((HEATMAP,)), "the cluster")
    except (TimeoutError, KafkaClientError):
        return Cluster(None, has_heat_map=False)
    return Cluster(told.cluster_id, has_heat_map=any(topic.error_code in THERE for topic in told.topics))


def is_local(admin_url: str | None) -> bool:
    if admin_url is None:
        return False
    try:
        require_local(admin_url)
    except ApiFailure:
        return False
    return True
