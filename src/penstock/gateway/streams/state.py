"""What the streams of a gateway share."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from penstock.gateway.kafka.sequenced import SequencedWriter
from penstock.gateway.queue.last_used import Life
from penstock.gateway.streams.client_registry import ClientRegistry
from penstock.gateway.streams.metrics import StreamMetrics

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import HTTPConnection

    from penstock.gateway.kafka.clients import Kafka
    from penstock.gateway.settings import GatewayLimits


class Streams:
    def __init__(self, kafka: Kafka, limits: GatewayLimits) -> None:
        self.metrics = StreamMetrics()
        self.stopping = asyncio.Event()
        """Streams without an end of their own end then."""
        self.writer = SequencedWriter(kafka.reader.client)
        self.clients = ClientRegistry(kafka, self.writer, Life(limits.registration_idle_ms_max))

    def stop(self) -> None:
        self.stopping.set()


def streams_in(app: FastAPI) -> Streams:
    return cast("Streams", app.state.streams)


def streams_of(connection: HTTPConnection) -> Streams:
    return streams_in(connection.app)
