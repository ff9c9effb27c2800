"""`/v1/traffic`: positions in, the heat map out.

Reading is for cars that contribute: whoever asks says which car it is, and the car has written a position
within the last seconds, through this gateway or anywhere else. A stream ends when its car stops doing so. The
console looks on without a car.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.gateway.console.viewer import is_viewer
from penstock.gateway.errors import JSON, ApiFailure, failure_body
from penstock.gateway.routes import documentation as doc
from penstock.gateway.routes.answers import json_answer
from penstock.gateway.state import gateway_of
from penstock.gateway.streams.event_stream import EVENTS_TYPE, Emit, EventStream, event
from penstock.gateway.streams.state import streams_of
from penstock.gateway.traffic import documentation as shapes
from penstock.gateway.traffic.boxes import parse_box
from penstock.gateway.traffic.positions import parse_positions
from penstock.gateway.traffic.state import clock_ms, traffic_of

if TYPE_CHECKING:
    from penstock.traffic.grid import BBox

KIND: Final = "traffic"

router = APIRouter(prefix="/v1/traffic", tags=["traffic"])


@router.post(
    "/positions",
    summary="Write where cars are: one position, or a list",
    description="All of them or, if one is wrong, none: then `index` and `field` say which.",
    responses=doc.responses("Written, and on all in-sync replicas", shapes.WRITTEN),
    openapi_extra=doc.json_body(shapes.POSITIONS),
)
async def write_positions(request: Request) -> Response:
    traffic = traffic_of(request)
    body = await request.body()
    await traffic.map_known()
    grid, now_ms = traffic.city.grid, clock_ms()
    limit = gateway_of(request).settings.limits.traffic_positions_max
    positions = parse_positions(body, grid, now_ms, limit)
    await traffic.writer.write(grid, positions, now_ms)
    traffic.metrics.written(len(positions))
    return json_answer({"status": "success", "written": len(positions)})


@router.get(
    "/heatmap",
    summary="The newest window of the heat map",
    responses=shapes.for_participants("As far as it is counted", shapes.HEAT_MAP),
    openapi_extra=doc.query(car=shapes.CAR, bbox=shapes.BOX),
)
async def heat_map(request: Request) -> Response:
    box = box_of(request)
    traffic = traffic_of(request)
    await traffic.all_known()
    require_participation(reason_to_refuse(request))
    return Response(traffic.feed.snapshot(box), media_type=JSON)


@router.get(
    "/heatmap/stream",
    summary="The heat map as it changes, as Server-Sent Events",
    description="First the last two windows, then whatever changes in them and in newer ones. Each event has "
    "the shape of the snapshot, and a figure in it replaces the one before. Who reads slowly gets fewer "
    "events, with more in each.",
    response_class=Response,
    responses=shapes.for_participants("Events without end", doc.TEXT, media_type=EVENTS_TYPE),
    openapi_extra=doc.query(car=shapes.CAR),
)
async def heat_map_stream(request: Request) -> Response:
    traffic = traffic_of(request)
    await traffic.all_known()
    refusal = reason_to_refuse(request)
    require_participation(refusal)
    feed, metrics = traffic.feed, streams_of(request).metrics

    async def follow(emit: Emit) -> None:
        with metrics.stream(KIND):
            life = feed.life
            events, number = feed.recent()
            while True:
                if events:
                    await emit(events)
                    metrics.sent(KIND, 1)
                events, number = await feed.changes(number)
                if feed.life != life:
                    return  # all that it was told is void: it comes back and is told anew
                if (reason := refusal()) is not None:
                    await emit(event(failure_body(reason), name="error"))
                    return

    return EventStream(follow, streams_of(request), gateway_of(request).settings.limits)


@router.get(
    "/streets",
    summary="The streets as GeoJSON, and the grid of the map",
    responses=doc.responses("The map", shapes.STREETS),
)
async def streets(request: Request) -> Response:
    traffic = traffic_of(request)
    await traffic.map_known()
    return Response(traffic.city.geojson(), media_type=JSON)


def reason_to_refuse(request: Request) -> Callable[[], str | None]:
    """By the rule of participation; asked again as time goes on."""
    participants = traffic_of(request).participants
    car = request.query_params.get("car")
    if is_viewer(request) or not participants.required:
        return lambda: None

    def refuse() -> str | None:
        if not car:
            return "which car asks? Reading traffic is for those who contribute: ?car=ID"
        if participants.may_read(car, clock_ms()):
            return None
        seconds = participants.window_ms / 1000
        return f"car {car!r} has not contributed a position in the last {seconds:g} s"

    return refuse


def require_participation(refusal: Callable[[], str | None]) -> None:
    reason = refusal()
    if reason is not None:
        raise ApiFailure(403, reason)


def box_of(request: Request) -> BBox | None:
    text = request.query_params.get("bbox")
    if not text:
        return None
    try:
        return parse_box(text)
    except ValueError as error:
        raise ApiFailure(400, f"bbox: {error}") from None
