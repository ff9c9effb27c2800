"""`/v1/cluster`: the state of the cluster, what happens in it, and faults to try.

The admin endpoint of a node or of a supervisor tells it. Of a cluster without one, such as Apache Kafka, the
state is told as far as the Kafka protocol knows it; what happens in it is not known.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Final

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.gateway.errors import ApiFailure
from penstock.gateway.flights.heartbeats import clock_ms
from penstock.gateway.flights.pulse import with_heartbeats
from penstock.gateway.flights.state import on_demand
from penstock.gateway.kafka.questions import MetadataQuestion
from penstock.gateway.queue.parameters import body_fields, text
from penstock.gateway.routes import documentation as doc
from penstock.gateway.routes.admin_endpoint import AdminEndpoint
from penstock.gateway.routes.answers import done, json_answer
from penstock.gateway.routes.faults import (
    FLIGHTS,
    SIGNALS,
    check_target,
    find_process,
    require_local,
    require_this_machine,
    send_signal,
)
from penstock.gateway.state import gateway_of
from penstock.gateway.streams.event_stream import EVENTS_TYPE, Emit, EventStream, event
from penstock.gateway.streams.state import streams_of

if TYPE_CHECKING:
    from penstock.gateway.kafka.clients import Kafka

router = APIRouter(prefix="/v1/cluster", tags=["cluster"])

LOG: Final = "/v1/cluster/log"
CURSOR: Final = re.compile(r"-?\d{1,18}\.-?\d{1,18}", re.ASCII)
POLL_S: Final = 0.5
KILL: Final = doc.thing(
    "signal",
    target={
        "type": "string",
        "description": "NODE_ID, leader:TOPIC, controller, gateway, flights or supervisor",
        "examples": ["leader:orders"],
    },
    signal={"enum": list(SIGNALS), "default": "KILL"},
)


def endpoint_of(request: Request) -> AdminEndpoint:
    return AdminEndpoint(gateway_of(request).settings.admin_url)


@router.get("", summary="The state of the cluster", responses=doc.responses("The state", doc.CLUSTER))
async def cluster(request: Request) -> Response:
    endpoint = endpoint_of(request)
    if endpoint.url is None:
        told = await state_by_protocol(gateway_of(request).kafka)
    else:
        told = await endpoint.ask("/v1/cluster")
    return json_answer(await with_services(request, told))


async def with_services(request: Request, told: dict[str, Any]) -> dict[str, Any]:
    """With what heartbeats tell, of services that run elsewhere, too."""
    pulse = await on_demand(request).heartbeats().known()
    return with_heartbeats(told, pulse.last, clock_ms())


@router.get(
    "/log", summary="What has happened in the cluster", responses=doc.responses("Events", doc.ANY_OBJECT)
)
@router.get(
    "/log/{after}",
    summary="What has happened since",
    description="`after` is what an answer before said under that name.",
    responses=doc.responses("Events", doc.ANY_OBJECT),
)
async def cluster_log(request: Request, after: str | None = None) -> Response:
    if after is not None and not CURSOR.fullmatch(after):
        raise ApiFailure(400, "'after' is not of the form N.M")
    return json_answer(await endpoint_of(request).ask(LOG if after is None else f"{LOG}/{after}"))


@router.get(
    "/events",
    summary="Elections, in-sync changes and restarts, as Server-Sent Events",
    response_class=Response,
    responses=doc.responses("Events, the old ones first", doc.TEXT, media_type=EVENTS_TYPE),
)
async def cluster_events(request: Request) -> Response:
    endpoint = endpoint_of(request)
    first = await endpoint.ask(LOG)

    async def follow(emit: Emit) -> None:
        seen: dict[str | None, int] = {}
        answer = first
        while True:
            if new := take_new(answer, seen):
                await emit(b"".join(event(orjson.dumps(each)) for each in new))
            await asyncio.sleep(POLL_S)
            answer = await ask_again(endpoint, answer)

    return EventStream(follow, streams_of(request), gateway_of(request).settings.limits)


@router.post(
    "/kill",
    summary="Send a signal to a process of a cluster on this machine",
    responses=doc.responses("Sent", doc.DONE, 404, 409),
    openapi_extra=doc.json_body(KILL),
)
async def kill(request: Request) -> Response:
    fields = await body_fields(request)
    target = check_target(text(fields, "target"))
    signal = fields.get("signal", "KILL")
    if signal not in SIGNALS:
        raise ApiFailure(400, f"'signal' is none of {', '.join(SIGNALS)}")
    endpoint = endpoint_of(request)
    # A service that sends heartbeats is found also where there is no admin endpoint.
    is_known = endpoint.url is None and target == FLIGHTS
    told = await with_services(request, {} if is_known else await endpoint.ask("/v1/cluster"))
    process = await find_process(told, target, gateway_of(request).kafka.admin)
    if process.host is not None:
        require_this_machine(process)
    else:
        assert endpoint.url is not None
        require_local(endpoint.url)
    send_signal(process, signal)
    return done(f"sent SIG{signal} to {process.name}, process {process.pid}")


def take_new(answer: dict[str, Any], seen: dict[str | None, int]) -> list[dict[str, Any]]:
    """The events of an answer that were not in one before; a node tells all that it knows, each time."""
    events: list[dict[str, Any]] = answer.get("events", [])
    new = [each for each in events if each["offset"] > seen.get(each.get("source"), -1)]
    for each in new:
        seen[each.get("source")] = max(each["offset"], seen.get(each.get("source"), -1))
    return new


async def ask_again(endpoint: AdminEndpoint, answer: dict[str, Any]) -> dict[str, Any]:
    """A supervisor says where to go on. One that is away has a successor on its way."""
    after = answer.get("after")
    try:
        return await endpoint.ask(f"{LOG}/{after}" if after else LOG)
    except ApiFailure:
        return {"events": [], **({"after": after} if after else {})}


async def state_by_protocol(kafka: Kafka) -> dict[str, Any]:
    """In the shape of `penstock cluster status --json`; what the protocol does not tell is null."""
    told = await kafka.reader.client.ask_anybody(MetadataQuestion(None), "the cluster")
    return {
        "cluster_id": told.cluster_id,
        "controller": told.controller_id if told.controller_id >= 0 else None,
        "brokers": [broker_fields(each) for each in told.brokers],
        "topics": [
            {"name": topic.name, "partitions": [partition_fields(each) for each in topic.partitions]}
            for topic in sorted(told.topics, key=lambda each: str(each.name))
        ],
    }


def broker_fields(broker: Any) -> dict[str, Any]:
    return {
        "id": broker.node_id, "host": broker.host, "port": broker.port,
        "pid": None, "state": "running", "roles": ["broker"], "rack": broker.rack,
    }  # fmt: skip


def partition_fields(partition: Any) -> dict[str, Any]:
    return {
        "partition": partition.partition_index,
        "leader": partition.leader_id if partition.leader_id >= 0 else None,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replica_nodes),
        "isr": list(partition.isr_nodes),
        "high_watermark": None,
    }
