"""One timer for the deadlines of many; see `groups.alarms` for how they are kept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from penstock.groups.alarms import Alarms

log = logging.getLogger(__name__)

Key = TypeVar("Key")


class Deadlines(Generic[Key]):
    def __init__(self, now_ms: Callable[[], int], on_due: Callable[[Key], None]) -> None:
        self._now_ms = now_ms
        self._on_due = on_due
        self._alarms: Alarms[Key] = Alarms()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0

    def __len__(self) -> int:
        return len(self._alarms)

    def set(self, key: Key, deadline_ms: int | None) -> None:
        """Ask the owner of `key` at `deadline_ms`, or earlier if that was set before."""
        if deadline_ms is None:
            self._alarms.forget(key)
        else:
            self._alarms.set(key, deadline_ms)
            self._arm()

    def close(self) -> None:
        self._alarms.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        first_ms = self._alarms.next_ms()
        if first_ms is None:
            return
        if self._timer is not None:
            if self._timer_at_ms <= first_ms:
                return
            self._timer.cancel()
        delay_s = max(first_ms - self._now_ms(), 0) / 1000
        self._timer_at_ms = first_ms
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._fire)

    def _fire(self) -> None:
        self._timer = None
        for key in self._alarms.take_due(self._now_ms()):
            try:
                self._on_due(key)
            except Exception:  # one owner's fault must not stop the clock of all others
                log.exception("a deadline could not be kept")
        self._arm()
