"""Registrations that are remembered as long as they are used.

Each is a record in a log of the gateway, with the time at which it was written. A gateway that uses one which
is older than a tenth of its life writes it again, so what is in use is always young in the log; the rest is
forgotten by the gateways, and goes with the log's retention. A gateway that has not read what others wrote
again forgets it, too, and finds it when it reads on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from penstock.gateway.queue.strict import MalformedRecordError, is_number

K = TypeVar("K")
V = TypeVar("V")

KEPT_FOREVER: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
RENEWALS: Final = 10
"""In the life of a registration."""
SEGMENTS: Final = 4
"""In the life of a registration: so much later than needed the log gives back its space."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Life:
    """How long a registration is kept after its last use."""

    idle_ms: int = 0
    """0 is for ever."""
    now_ms: Callable[[], int] = now_ms

    def is_over(self, used_at_ms: int) -> bool:
        return 0 < self.idle_ms < self.now_ms() - used_at_ms

    def is_to_be_renewed(self, used_at_ms: int) -> bool:
        return 0 < self.idle_ms < RENEWALS * (self.now_ms() - used_at_ms)

    def topic_config(self) -> dict[str, str]:
        """With a retention of twice the life: clocks may differ, and gateways forget first."""
        if self.idle_ms == 0:
            return KEPT_FOREVER
        segment_ms = max(1, self.idle_ms // SEGMENTS)
        return KEPT_FOREVER | {"retention.ms": str(2 * self.idle_ms), "segment.ms": str(segment_ms)}


FOREVER: Final = Life()


class LastUsed(Generic[K, V]):
    def __init__(self, life: Life) -> None:
        self._life = life
        self._entries: dict[K, tuple[V, int]] = {}
        """In the order of their last use, about."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        entry = self._entries.get(key)
        return None if entry is None or self._life.is_over(entry[1]) else entry[0]

    def is_to_be_renewed(self, key: K) -> bool:
        entry = self._entries.get(key)
        return entry is not None and self._life.is_to_be_renewed(entry[1])

    def put(self, key: K, value: V, at: Any) -> None:
        """`at` is what the record says; records of older gateways say nothing. MalformedRecordError."""
        now = self._life.now_ms()
        if at is not None and not is_number(at):
            raise MalformedRecordError("not a time")
        # Of what is said to be used in times to come nothing behind it would be forgotten.
        used_at_ms = now if at is None else min(at, now)
        self._entries.pop(key, None)
        self._entries[key] = value, used_at_ms
        while self._entries and self._life.is_over(next(iter(self._entries.values()))[1]):
            del self._entries[next(iter(self._entries))]

    def clear(self) -> None:
        self._entries.clear()
