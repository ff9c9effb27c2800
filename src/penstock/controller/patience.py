"""Waiting for something that is missing, up to a limit. Pure."""

from __future__ import annotations


class Patience:
    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._missed_from_s: float | None = None
        self._missed_last_s = 0.0

    def is_left(self, now_s: float) -> bool:
        return self._missed_from_s is None or now_s - self._missed_from_s < self._limit_s

    def missed(self, now_s: float) -> None:
        """It is not there. After a pause as long as the limit, waiting begins anew."""
        if self._missed_from_s is None or now_s - self._missed_last_s >= self._limit_s:
            self._missed_from_s = now_s
        self._missed_last_s = now_s

    def found(self) -> None:
        self._missed_from_s = None
