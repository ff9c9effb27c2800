"""Which web pages may use the gateway: its own, and those of origins that were named. Pure.

A browser lets any page send requests to any address, also to this machine's own: reading the answers is what
it forbids. Consuming a message or creating a topic needs no answer, and a WebSocket is not even forbidden to
read. So requests that a browser makes for a page of somebody else are refused; other programs do not send
these headers. A page whose name was pointed at this machine (DNS rebinding) gives itself away by the host.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

LOCAL_NAMES: Final = frozenset({b"localhost"})
ENTRANCES: Final = frozenset({"/", "/docs"})
"""Pages for people: a link on a page of somebody else may lead there, and going there changes nothing."""


@dataclass(frozen=True, slots=True)
class Origins:
    allowed: frozenset[bytes]
    """Of other pages, such as `https://console.example`."""
    local_only: bool
    """Whether the gateway is for this machine alone and has no tokens: its name is all that protects it."""

    def refuses(self, host: bytes | None, origin: bytes | None, fetch_site: bytes | None) -> str | None:
        """Why a request with these headers is refused."""
        if self.local_only and host is not None and not is_local(host):
            return "that is not a name of this machine"
        if origin is not None and origin not in self.allowed and not is_of(origin, host):
            return "pages of that origin may not use the gateway"
        if fetch_site == b"cross-site" and origin not in self.allowed:
            return "pages of other sites may not use the gateway"
        return None


def is_of(origin: bytes, host: bytes | None) -> bool:
    """Whether a page with this origin came from the host itself."""
    return host is not None and origin.partition(b"://")[2].lower() == host.lower()


@lru_cache(64)
def is_local(host: bytes) -> bool:
    """Of a `Host` header, with or without a port."""
    name = host.lower()
    if name.startswith(b"["):
        name = name[1:].partition(b"]")[0]
    else:
        name = name.partition(b":")[0]
    if name in LOCAL_NAMES:
        return True
    try:
        return ipaddress.ip_address(name.decode("ascii")).is_loopback
    except ValueError:
        return False
