"""All endpoints but those of the topic queue, on an application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.gateway.routes import cluster, groups, health, messages, topics
from penstock.gateway.streams import events, socket_produce, socket_stream
from penstock.gateway.streams.state import Streams

if TYPE_CHECKING:
    from fastapi import FastAPI

    from penstock.gateway.kafka.clients import Kafka
    from penstock.gateway.settings import GatewaySettings


def install(app: FastAPI, settings: GatewaySettings, kafka: Kafka) -> None:
    app.state.streams = Streams(kafka, settings.limits)
    for module in (topics, messages, events, groups, cluster, health, socket_stream, socket_produce):
        app.include_router(module.router)
