"""The endpoints of traffic on an application, which closes what they share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.gateway.streams.state import streams_in
from penstock.gateway.traffic import routes
from penstock.gateway.traffic.state import TrafficOnDemand

if TYPE_CHECKING:
    from fastapi import FastAPI

    from penstock.gateway.kafka.clients import Kafka
    from penstock.gateway.settings import GatewaySettings


def install(app: FastAPI, settings: GatewaySettings, kafka: Kafka) -> None:
    app.state.traffic = TrafficOnDemand(kafka, settings, streams_in(app).metrics.registry)
    app.include_router(routes.router)
