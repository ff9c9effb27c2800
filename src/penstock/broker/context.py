"""What a handler is given besides its request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


@dataclass(slots=True)
class ConnectionState:
    """What handlers remember from one request of a connection to its next."""

    client_host: str
    fetch_first: tuple[str, int] | None = None
    """The partition that was asked for first."""
    fetch_turn: int = 0


@dataclass(slots=True)
class RequestContext:
    broker: Broker
    api_version: int
    client_id: str
    connection: ConnectionState
    raw: Any
    """The request in the class of its own version, for the few fields that newer versions dropped."""

    @property
    def client_host(self) -> str:
        return self.connection.client_host
