"""Whether the gateway lives, whether it can do something, and in numbers what it does."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import Response

from penstock.gateway.errors import ApiFailure
from penstock.gateway.kafka.questions import MetadataQuestion
from penstock.gateway.routes import documentation as doc
from penstock.gateway.routes.admin_endpoint import AdminEndpoint
from penstock.gateway.routes.answers import json_answer
from penstock.gateway.state import gateway_of
from penstock.gateway.streams.state import streams_of

if TYPE_CHECKING:
    from penstock.gateway.kafka.reader import LogReader

router = APIRouter(tags=["service"])

READY_S_MAX: Final = 2.0
ALIVE: Final = doc.thing(status={"const": "success"})


@router.get("/healthz", summary="It is alive", responses=doc.responses("It is", ALIVE))
async def health() -> Response:
    return json_answer({"status": "success"})


@router.get("/readyz", summary="It reaches the cluster", responses=doc.responses("It does", ALIVE))
async def ready(request: Request) -> Response:
    await ask_cluster(gateway_of(request).kafka.reader)
    return json_answer({"status": "success"})


@router.get(
    "/metrics",
    summary="Counters and gauges, for Prometheus",
    response_class=Response,
    responses=doc.responses("The figures", doc.TEXT, media_type="text/plain"),
)
async def metrics(request: Request) -> Response:
    """The gateway's own, and those of the node that it stands beside."""
    figures = generate_latest(streams_of(request).metrics.registry)
    with suppress(ApiFailure):  # a supervisor has none, nor has Apache Kafka
        figures += await AdminEndpoint(gateway_of(request).settings.admin_url).read("/metrics")
    return Response(figures, headers={"content-type": CONTENT_TYPE_LATEST})


async def ask_cluster(reader: LogReader) -> None:
    try:
        async with asyncio.timeout(READY_S_MAX):
            await reader.client.ask_anybody(MetadataQuestion(()), "the cluster")
    except TimeoutError:
        raise ApiFailure(503, "no broker answers", headers={"retry-after": "1"}) from None
