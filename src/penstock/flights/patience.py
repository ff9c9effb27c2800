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
QUIET_S: Final = 1.0
"""What passes sooner is not worth a word."""

Waiting = Callable[[str], None]
"""Is told why there are pauses, if it takes longer."""


def reason_of(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


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
        self.answered()

    def answered(self) -> None:
        """Somebody is there, though what was wanted may not be: the time until it gives up begins anew."""
        self._failing_since: float | None = None

    def pause(self, reason: str, told_s: float | None = None) -> None:
        """`told_s` is what the other side asks for. DisconnectedServerError when it took too long already."""
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        pause_s = self._pause_s if told_s is None else min(told_s, TOLD_PAUSE_S_MAX)
        if self._timeout_s is not None:
            left_s = self._failing_since + self._timeout_s - now
            if left_s <= 0:
                raise DisconnectedServerError(f"{self._what}: gave up after {self._timeout_s:g} s: {reason}")
            pause_s = min(pause_s, left_s)
        if now >= self._failing_since + QUIET_S:
            self._waiting(reason)
        self._sleep(pause_s)
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)
