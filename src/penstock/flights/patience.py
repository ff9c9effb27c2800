"""How long a client that has not got what it wants waits before it asks again, and when it gives up."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from penstock.client.errors import DisconnectedServerError

FIRST_PAUSE_S: Final = 0.02
"""Short: a gateway may close a connection that was idle, which shows only when it is used again."""
PAUSE_S_MAX: Final = 5.0
TOLD_PAUSE_S_MAX: Final = 60.0

Waiting = Callable[[str], None]
"""Is told why there is a pause."""


class Patience:
    """Pauses that grow from one failure to the next, until `progress` begins anew."""

    def __init__(
        self,
        what: str,
        timeout_s: float | None,
        sleep: Callable[[float], object],
        waiting: Waiting = lambda _: None,
    ) -> None:
        self._what = what
        self._timeout_s = timeout_s
        self._sleep = sleep
        self._waiting = waiting
        self.progress()

    def progress(self) -> None:
        self._pause_s = FIRST_PAUSE_S
        self._since = time.monotonic()

    @property
    def left_s(self) -> float | None:
        """Until it gives up; None for never."""
        if self._timeout_s is None:
            return None
        return max(0.0, self._since + self._timeout_s - time.monotonic())

    def pause(self, reason: str, told_s: float | None = None) -> None:
        """`told_s` is what the other side asks for. DisconnectedServerError when it took too long already."""
        pause_s = self._pause_s if told_s is None else min(told_s, TOLD_PAUSE_S_MAX)
        left_s = self.left_s
        if left_s is not None and pause_s >= left_s:
            raise DisconnectedServerError(f"{self._what}: gave up after {self._timeout_s:g} s: {reason}")
        self._waiting(reason)
        self._sleep(pause_s)
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)
