"""How much of one client may be on its way at once, in messages and in bytes."""

from __future__ import annotations

import asyncio


class Window:
    """One that is larger than the whole window goes through alone."""

    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._messages = 0
        self._bytes = 0
        self._released = asyncio.Event()

    async def take(self, size: int) -> None:
        """Waits until there is room."""
        while self._messages and (
            self._messages >= self._messages_max or self._bytes + size > self._bytes_max
        ):
            self._released.clear()
            await self._released.wait()
        self._messages += 1
        self._bytes += size

    def release(self, size: int) -> None:
        self._messages -= 1
        self._bytes -= size
        self._released.set()
