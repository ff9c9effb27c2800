"""How a fetch waits, without polling: until somebody wakes it, or its time is over."""

from __future__ import annotations

import asyncio


class Wakeup:
    def __init__(self) -> None:
        self._waiting: asyncio.Future[None] | None = None

    async def wait(self, timeout_s: float) -> None:
        """For one at a time. What happened before does not count: look, and wait if there was nothing."""
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        timer = loop.call_later(timeout_s, self.wake)
        try:
            await self._waiting
        finally:
            timer.cancel()
            self._waiting = None

    def wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
