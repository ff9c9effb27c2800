"""How long a reader goes on trying, and with which pauses."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.gateway.kafka.errors import KafkaUnavailableError, UnknownPartitionError, UnknownTopicError

if TYPE_CHECKING:
    from penstock.gateway.kafka.reader_limits import ReaderLimits


class Patience:
    """For one request: pauses that grow, up to the limits."""

    def __init__(self, what: str, limits: ReaderLimits, *, missing_s_max: float) -> None:
        """`missing_s_max`: how long the topic may be missing."""
        self._what = what
        self._limits = limits
        self._missing_s_max = missing_s_max
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time()
        self._missing_since: float | None = None
        self._pause_s = limits.backoff_s_min

    async def after(self, problem: Exception) -> None:
        """A pause before the next attempt; raises instead if there should be none."""
        now = self._loop.time()
        if isinstance(problem, UnknownTopicError):
            if self._missing_since is None:
                self._missing_since = now
            patient = not isinstance(problem, UnknownPartitionError)
            if not patient or now - self._missing_since >= self._missing_s_max:
                raise problem
        else:
            self._missing_since = None
        if now - self._started >= self._limits.unavailable_s_max:
            raise KafkaUnavailableError(f"{self._what} is not available: {problem}") from problem
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 2, self._limits.backoff_s_max)
