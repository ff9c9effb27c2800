"""Which APIs are served, in which versions, by what.

A handler module decorates one function with `@api(key, first, last)`; the result carries the numbers. The
registry is built from the handlers that are there, and ApiVersions is answered from the registry, so there
is no second list that could disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from penstock.wire.codec import MessageCodec, RequestHeader, load_codec
from penstock.wire.primitives import skip_tagged_fields

Decoder = Callable[[bytes | memoryview, int, int], Any]
"""Reads a request by hand: (frame, position of the body, version)."""


@dataclass(frozen=True, slots=True)
class Handler:
    """One API: its number, the versions it is served in, and the function that serves it.

    `advertised_from` may be lower than `versions[0]`: some clients switch features off unless an old
    version is listed, although they never use it (see handlers/produce.py). Such a request is refused.
    """

    key: int
    versions: range
    advertised_from: int
    function: Callable[..., Any]
    decoder: Decoder | None = None
    between_nodes: bool = False
    """Served, and not told to clients."""
    forwarded: bool = False
    """A matter of the active controller: on other nodes the request is sent on."""

    def codec(self, version: int) -> MessageCodec:
        return load_codec(self.key, version, self.versions)

    def read_request(
        self, codec: MessageCodec, frame: bytes | memoryview, header: RequestHeader
    ) -> tuple[Any, Any]:
        """(the request as it was sent, the same in the shape of the newest version)."""
        if self.decoder is None:
            return codec.read_request(frame, header)
        position = skip_tagged_fields(frame, header.end) if codec.is_flexible else header.end
        request = self.decoder(frame, position, header.api_version)
        return request, request


def api(
    key: int,
    first: int,
    last: int,
    *,
    advertised_from: int | None = None,
    decoder: Decoder | None = None,
    between_nodes: bool = False,
    forwarded: bool = False,
) -> Callable[[Callable[..., Any]], Handler]:
    """Make a function the handler of API `key` in versions `first` to `last`."""

    def decorate(function: Callable[..., Any]) -> Handler:
        oldest = first if advertised_from is None else advertised_from
        return Handler(key, range(first, last + 1), oldest, function, decoder, between_nodes, forwarded)

    return decorate


class Registry:
    """By key; a key that nodes use among themselves in later versions than clients has a handler for each."""

    def __init__(self, handlers: Iterable[Handler]) -> None:
        self._handlers: dict[int, Handler] = {}
        self._between_nodes: dict[int, Handler] = {}
        for handler in handlers:
            table = self._between_nodes if handler.between_nodes else self._handlers
            if handler.key in table:
                raise ValueError(f"two handlers for API {handler.key}")
            table[handler.key] = handler

    def find(self, key: int, version: int | None = None) -> Handler | None:
        """The handler of an API, if possible one that serves the version."""
        internal = self._between_nodes.get(key)
        if internal is not None and version in internal.versions:
            return internal
        return self._handlers.get(key)

    def between_nodes(self) -> Iterator[Handler]:
        return iter(self._between_nodes.values())

    def __iter__(self) -> Iterator[Handler]:
        return iter(sorted(self._handlers.values(), key=lambda handler: handler.key))

    def advertised(self) -> list[tuple[int, int, int]]:
        """(key, first version, last version) of each API, as ApiVersions lists them."""
        return [
            (handler.key, handler.advertised_from, handler.versions[-1])
            for _, handler in sorted(self._handlers.items())
        ]
