"""Producer ids for this broker, taken from the controller in blocks.

A block is durable before its first id is handed out, so an id is never given twice, whoever crashes. What is
left of a block at the end of a process is not used.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PRODUCER_ID_BLOCK = 1000


class ProducerIds:
    def __init__(self, allocate: Callable[[int], Awaitable[range]]) -> None:
        self._allocate = allocate
        self._block = iter(range(0))
        self._refill = asyncio.Lock()

    async def next(self) -> int:
        found = next(self._block, None)
        while found is None:
            async with self._refill:
                # Whoever waited for the lock may find that the block was filled meanwhile.
                found = next(self._block, None)
                if found is None:
                    self._block = iter(await self._allocate(PRODUCER_ID_BLOCK))
                    found = next(self._block, None)
        return found
