"""Names by which HTTP endpoints are asked.

A web page whose own name was pointed at this machine (DNS rebinding) is of the same origin as an endpoint
here, for all that its browser knows; the name in the `Host` header gives it away. So endpoints without tokens
answer to names that they know. An address is no name, and nobody can point it elsewhere: it passes.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

LOOPBACK: Final = "127.0.0.1"
LOCAL_NAMES: Final = frozenset({"localhost"})


@lru_cache(1024)
def is_loopback(host: str) -> bool:
    """Of an address or a name, which is not looked up."""
    if host.lower() in LOCAL_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def loopback_of(host: str) -> str:
    """Where an endpoint for this machine alone listens, beside one that listens on `host`."""
    return host if is_loopback(host) else LOOPBACK


@lru_cache(64)
def name_in(host: bytes) -> str:
    """The name or address in a `Host` header, which may have a port."""
    text = host.decode("latin-1").lower()
    return text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]


@lru_cache(64)
def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class KnownHosts:
    names: frozenset[str] = frozenset()
    """Besides this machine's own."""

    @classmethod
    def of(cls, *names: str | None) -> KnownHosts:
        return cls(frozenset(name.lower() for name in names if name))

    def knows(self, host: bytes) -> bool:
        """Of a `Host` header."""
        name = name_in(host)
        return name in LOCAL_NAMES or name in self.names or is_address(name)
