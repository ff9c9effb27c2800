"""What a handler is given besides its request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


@dataclass(frozen=True, slots=True)
class RequestContext:
    broker: Broker
    api_version: int
    client_id: str
    client_host: str
    raw: Any
    """The request in the class of its own version, for the few fields that newer versions dropped."""
