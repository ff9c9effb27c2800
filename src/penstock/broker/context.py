"""What a handler is given besides its request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.replica_session import ReplicaSession
    from penstock.controller.controller import Controller
    from penstock.types import ApiError


@dataclass(slots=True)
class ConnectionState:
    """What handlers remember from one request of a connection to its next."""

    client_host: str
    fetch_first: tuple[str, int] | None = None
    """The partition that was asked for first."""
    fetch_turn: int = 0
    replica_session: ReplicaSession | None = None
    """Of a replica that fetches here. It ends with the last reference to it, so with the connection."""
    heartbeats_of: tuple[int, int] | None = None
    """(id, epoch) of the broker that sends its heartbeats here."""
    client_software: str = ""
    """What the client calls itself (KIP-511)."""


@dataclass(slots=True)
class RequestContext:
    broker: Broker
    api_version: int
    client_id: str
    connection: ConnectionState
    raw: Any
    """The request in the class of its own version, for the few fields that newer versions dropped."""
    forwarding_error: ApiError | None = None
    """Why the request could not be sent on to the active controller."""

    @property
    def client_host(self) -> str:
        return self.connection.client_host

    @property
    def controller(self) -> Controller:
        """For handlers of what is the active controller's business."""
        if self.forwarding_error is not None:
            raise self.forwarding_error
        return self.broker.controller
