"""What the endpoints of a gateway share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from penstock.gateway.kafka.clients import Kafka
    from penstock.gateway.queue.topic_queue import TopicQueue
    from penstock.gateway.settings import GatewaySettings


@dataclass(frozen=True, slots=True)
class Gateway:
    settings: GatewaySettings
    kafka: Kafka
    queue: TopicQueue


def gateway_of(connection: HTTPConnection) -> Gateway:
    """The gateway that serves this request or WebSocket."""
    return cast("Gateway", connection.app.state.gateway)
