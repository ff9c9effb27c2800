"""One timer for many deadlines that mostly move away before they come.

Every heartbeat moves a deadline further into the future. So nothing is moved here: an entry stays where it
is, and when it comes up its owner is asked, who may set a later one. Only an earlier deadline makes a new
entry.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")


class Deadlines(Generic[Key]):
    def __init__(self, now_ms: Callable[[], int], on_due: Callable[[Key], None]) -> None:
        self._now_ms = now_ms
        self._on_due = on_due
        self._heap: list[tuple[int, int, Key]] = []
        self._scheduled: dict[Key, int] = {}
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0

    def set(self, key: Key, deadline_ms: int | None) -> None:
        """Ask the owner of `key` at `deadline_ms`, or earlier if that was set before."""
        if deadline_ms is None:
            self._scheduled.pop(key, None)
            return
        scheduled_ms = self._scheduled.get(key)
        if scheduled_ms is not None and scheduled_ms <= deadline_ms:
            return
        self._scheduled[key] = deadline_ms
        self._count += 1
        heapq.heappush(self._heap, (deadline_ms, self._count, key))
        self._arm()

    def close(self) -> None:
        self._heap.clear()
        self._scheduled.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        if not self._heap:
            return
        first_ms = self._heap[0][0]
        if self._timer is not None:
            if self._timer_at_ms <= first_ms:
                return
            self._timer.cancel()
        delay_s = max(first_ms - self._now_ms(), 0) / 1000
        self._timer_at_ms = first_ms
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now_ms = self._now_ms()
        due = []
        while self._heap and self._heap[0][0] <= now_ms:
            deadline_ms, _, key = heapq.heappop(self._heap)
            if self._scheduled.get(key) == deadline_ms:
                del self._scheduled[key]
                due.append(key)
        for key in due:
            self._on_due(key)
        self._arm()
