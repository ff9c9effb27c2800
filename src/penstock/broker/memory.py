"""The memory that requests and answers may hold, over all connections.

Whoever holds bytes for a client charges them here and releases them when they are gone. Over the limit
nothing new is started: connections stop reading and stop handling requests, and queue here for their turn,
first come first served. What is already under way may finish.

Those who wait may hold memory themselves, such as half of a big frame. If nobody else does, nobody would
ever release any, so then the first of them goes on over the limit: there is always progress.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class MemoryBudget:
    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._waiting: deque[tuple[Callable[[], None], int]] = deque()
        self._held_by_waiting = 0
        self._is_waking = False

    @property
    def is_exhausted(self) -> bool:
        return self.used_bytes >= self.limit_bytes

    @property
    def free_bytes(self) -> int:
        return max(self.limit_bytes - self.used_bytes, 0)

    def must_wait(self, holding: int) -> bool:
        """Whether somebody who holds that much has to wait before taking more."""
        return self.is_exhausted and self.used_bytes > self._held_by_waiting + holding

    def when_free(self, wake: Callable[[], None], holding: int) -> None:
        """Call `wake` once when it is the turn of the caller, who holds that much now."""
        self._waiting.append((wake, holding))
        self._held_by_waiting += holding

    def charge(self, size: int) -> None:
        self.used_bytes += size

    def release(self, size: int) -> None:
        self.used_bytes -= size
        if self._is_waking:
            return  # whoever was woken has finished something: the loop below goes on with the next
        self._is_waking = True
        try:
            while self._waiting and (not self.is_exhausted or self.used_bytes <= self._held_by_waiting):
                wake, holding = self._waiting.popleft()
                self._held_by_waiting -= holding
                wake()
        finally:
            self._is_waking = False
