"""The memory that requests and answers may hold, over all connections.

Whoever holds bytes for a client charges them here and releases them when they are gone. Over the limit
nothing new is started: connections stop reading and stop handling requests, and queue here for their turn,
first come first served. What is already under way may finish, so there is always progress.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class MemoryBudget:
    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def is_exhausted(self) -> bool:
        return self.used_bytes >= self.limit_bytes

    @property
    def free_bytes(self) -> int:
        return max(self.limit_bytes - self.used_bytes, 0)

    def charge(self, size: int) -> None:
        self.used_bytes += size

    def release(self, size: int) -> None:
        self.used_bytes -= size
        while self._waiting and not self.is_exhausted:
            self._waiting.popleft()()

    def when_free(self, wake: Callable[[], None]) -> None:
        """Call `wake` once when there is room again; it may charge, and so end the round."""
        self._waiting.append(wake)
