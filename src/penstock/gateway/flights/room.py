"""Memory for chunks that are being read or written, of all requests together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.flights.chunks import CHUNK_BYTES_MAX


class BodyRoom:
    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.bytes = 0

    @contextmanager
    def hold(self, size: int) -> Iterator[bool]:
        """Whether there is room for a chunk, while the block runs; 0: nobody knows how large it will be."""
        size = size or CHUNK_BYTES_MAX
        has_room = self.bytes + size <= self._bytes_max or not self.bytes
        taken = size if has_room else 0
        self.bytes += taken
        try:
            yield has_room
        finally:
            self.bytes -= taken
