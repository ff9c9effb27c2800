"""The end of a partition's log, read once for all who follow it.

A tail is one long poll that goes on for as long as somebody follows, and the newest records that it brought,
within a limit. A follower at the end waits for the tail's next chunk; one a little behind takes what it needs
from the chunks; one further behind, or new, reads by itself until it arrives here. So a thousand followers of
a partition cost the brokers one fetch, and one slow follower holds up nobody.
"""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from penstock.kafka.records import Fetched, ReadRecord

Poll = Callable[[int], Awaitable[Fetched]]
"""Fetch from that offset on, waiting for something to come."""


class Chunk(NamedTuple):
    offset: int
    next_offset: int
    records: list[ReadRecord]
    size: int


class Chunks:
    """The newest chunks of a log, without gaps between them."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._chunks: deque[Chunk] = deque()
        self._bytes = 0

    def add(self, offset: int, fetched: Fetched) -> None:
        if self._chunks and self._chunks[-1].next_offset != offset:
            self.clear()
        size = sum(record.size for record in fetched.records)
        self._chunks.append(Chunk(offset, fetched.next_offset, fetched.records, size))
        self._bytes += size
        while self._bytes > self._bytes_max and len(self._chunks) > 1:
            self._bytes -= self._chunks.popleft().size

    def clear(self) -> None:
        self._chunks.clear()
        self._bytes = 0

    def after(self, offset: int) -> tuple[list[ReadRecord], int] | None:
        """The records from `offset` to the end of the chunk that holds it, and where that ends."""
        if not self._chunks or not self._chunks[0].offset <= offset < self._chunks[-1].next_offset:
            return None
        # Followers are at the newest chunk, nearly always.
        chunk = next(each for each in reversed(self._chunks) if each.offset <= offset)
        if offset == chunk.offset:
            return chunk.records, chunk.next_offset
        return [record for record in chunk.records if record.offset >= offset], chunk.next_offset


class Tail:
    def __init__(self, poll: Poll, bytes_max: int) -> None:
        self._poll = poll
        self._arrived = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        self.chunks = Chunks(bytes_max)
        self.position = -1
        """Up to where it has read; -1 before it runs."""
        self.followers = 0

    @property
    def has_failed(self) -> bool:
        return self._failure is not None

    def has_come_to(self, offset: int) -> bool:
        """Whether whoever is at that offset need only wait."""
        return self._task is not None and self.position == offset

    def start(self, offset: int) -> None:
        """Go on from the end of the log, unless it runs already."""
        if self._task is None:
            self.position = offset
            self._task = asyncio.create_task(self._run())

    async def wait(self) -> None:
        """Until something has come. Raises what ended the tail."""
        if self._failure is None:
            await self._arrived.wait()
        if self._failure is not None:
            # Each follower raises its own: a shared one would collect the tracebacks of all.
            raise copy.copy(self._failure) from self._failure

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            while True:
                fetched = await self._poll(self.position)
                if fetched.next_offset > self.position:
                    self.chunks.add(self.position, fetched)
                    self.position = fetched.next_offset
                    self._wake()
        except Exception as error:
            self._failure = error
            self._wake()

    def _wake(self) -> None:
        """Who waits goes on; who waits from now on waits for what comes next."""
        self._arrived.set()
        self._arrived.clear()
