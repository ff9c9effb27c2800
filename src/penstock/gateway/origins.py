"""Which web pages may use the gateway: its own, and those of origins that were named. Pure.

A browser lets any page send requests to any address, also to this machine's own: reading the answers is what
it forbids. Consuming a message or creating a topic needs no answer, and a WebSocket is not even forbidden to
read. So requests that a browser makes for a page of somebody else are refused, be it one of this machine's at
another port; other programs do not send these headers. A page whose name was pointed at this machine (DNS
rebinding) gives itself away by the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.hosts import KnownHosts, is_loopback, name_in

OTHERS: Final = frozenset({b"cross-site", b"same-site"})
"""`Sec-Fetch-Site` of pages that are not the gateway's own: a site is a machine's name, whatever the port."""
ENTRANCES: Final = frozenset({"/", "/docs"})
"""Pages for people: a link on a page of somebody else may lead there, and going there changes nothing."""


@dataclass(frozen=True, slots=True)
class Origins:
    allowed: frozenset[bytes]
    """Of other pages, such as `https://console.example`."""
    local_only: bool = False
    """Whether the gateway is for this machine alone and has no tokens: its name is all that protects it."""
    hosts: KnownHosts | None = None
    """By which names it is asked, if it serves other machines without tokens."""

    def refuses(self, host: bytes | None, origin: bytes | None, fetch_site: bytes | None) -> str | None:
        """Why a request with these headers is refused."""
        if host is not None and not self._answers_to(host):
            return "that is not a name of this machine"
        if origin is not None and origin not in self.allowed and not is_of(origin, host):
            return "pages of that origin may not use the gateway"
        if fetch_site in OTHERS and origin not in self.allowed:
            return "pages of other sites may not use the gateway"
        return None

    def _answers_to(self, host: bytes) -> bool:
        if self.local_only and not is_loopback(name_in(host)):
            return False
        return self.hosts is None or self.hosts.knows(host)


def is_of(origin: bytes, host: bytes | None) -> bool:
    """Whether a page with this origin came from the host itself."""
    return host is not None and origin.partition(b"://")[2].lower() == host.lower()
