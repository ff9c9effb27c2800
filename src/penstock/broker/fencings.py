"""Which brokers were fenced a moment ago, as far as this process has seen it.

librdkafka is told of those as well. It ends the thread of a broker that an answer to Metadata does not
name. If that answer also gives another leader to a partition which that thread had, the end of the thread
takes the new leader away again, and the partition waits for the next look at leaders, one or two seconds
later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

RECENT_MS: Final = 3_000
"""Clients that lost a leader look for the next within this time. After it the broker is left out, and other
clients are never told of it: they take whoever is named for alive, and ask it."""


class Fencings:
    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._fenced_at_ms: dict[int, int] = {}

    def note(self, broker_id: int, *, is_fenced: bool) -> None:
        if is_fenced:
            self._fenced_at_ms.setdefault(broker_id, self._now_ms())
        else:
            self._fenced_at_ms.pop(broker_id, None)

    def is_recent(self, broker_id: int) -> bool:
        fenced_at_ms = self._fenced_at_ms.get(broker_id)
        return fenced_at_ms is not None and self._now_ms() - fenced_at_ms < RECENT_MS
