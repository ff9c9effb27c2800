"""The earliest of many deadlines that mostly move away before they come.

Every heartbeat moves a deadline further into the future. So nothing is moved here: an entry stays where it
is, and when it comes up its owner is asked, who may set a later one. Only an earlier deadline makes a new
entry. Entries that were overtaken or forgotten are swept out once they are the most.
"""

from __future__ import annotations

import heapq
from typing import Final, Generic, TypeVar

Key = TypeVar("Key")

STALE_ENTRIES_MIN: Final = 64
"""Fewer are not worth a sweep."""


class Alarms(Generic[Key]):
    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Key]] = []
        self._scheduled: dict[Key, int] = {}
        self._count = 0  # so that the heap compares no keys, and equal deadlines come up as they were set

    def __len__(self) -> int:
        """The entries held, those included that were overtaken or forgotten."""
        return len(self._heap)

    def set(self, key: Key, deadline_ms: int) -> None:
        """Ask for `key` at `deadline_ms`, or earlier if that was set before."""
        scheduled_ms = self._scheduled.get(key)
        if scheduled_ms is not None and scheduled_ms <= deadline_ms:
            return
        self._scheduled[key] = deadline_ms
        self._count += 1
        heapq.heappush(self._heap, (deadline_ms, self._count, key))
        self._sweep()

    def forget(self, key: Key) -> None:
        if self._scheduled.pop(key, None) is not None:
            self._sweep()

    def clear(self) -> None:
        self._heap.clear()
        self._scheduled.clear()

    def next_ms(self) -> int | None:
        """When to look next; nothing may be due then, but nothing is due earlier."""
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ms: int) -> list[Key]:
        due = []
        while self._heap and self._heap[0][0] <= now_ms:
            deadline_ms, _, key = heapq.heappop(self._heap)
            if self._scheduled.get(key) == deadline_ms:
                del self._scheduled[key]
                due.append(key)
        return due

    def _sweep(self) -> None:
        if len(self._heap) <= 2 * len(self._scheduled) + STALE_ENTRIES_MIN:
            return
        held: dict[Key, tuple[int, int, Key]] = {}
        for entry in self._heap:
            if self._scheduled.get(entry[2]) == entry[0]:
                held[entry[2]] = entry
        self._heap = list(held.values())
        heapq.heapify(self._heap)
