"""The endpoints of Flights jobs on an application, which closes what they share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.gateway.flights import routes
from penstock.gateway.flights.state import FlightsOnDemand
from penstock.gateway.streams.state import streams_in

if TYPE_CHECKING:
    from fastapi import FastAPI

    from penstock.gateway.kafka.clients import Kafka
    from penstock.gateway.settings import GatewaySettings


def install(app: FastAPI, settings: GatewaySettings, kafka: Kafka) -> None:
    app.state.flights = FlightsOnDemand(kafka, settings, streams_in(app).metrics.registry)
    app.include_router(routes.router)
