"""A question that many ask at the same time: one answer for all, and none that is older than its question."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Fresh(Generic[T]):
    def __init__(self, ask: Callable[[], Awaitable[T]]) -> None:
        self._ask = ask
        self._asking: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """An answer to a question that is asked after this call: never the one that is on its way."""
        if self._next is None:
            self._next = asyncio.create_task(self._round(self._asking))
            self._next.add_done_callback(seen)
        # Whoever goes away does not take the answer from the others.
        return await asyncio.shield(self._next)

    async def _round(self, before: asyncio.Task[T] | None) -> T:
        if before is not None:
            await asyncio.wait([before])
        self._asking, self._next = self._next, None
        return await self._ask()


def seen(task: asyncio.Task[Any]) -> None:
    """If it failed, whoever waited knows; that nobody did is nothing to report."""
    if not task.cancelled():
        task.exception()
