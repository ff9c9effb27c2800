"""What a node's start was made of, for the cluster log."""

from __future__ import annotations

from collections.abc import Callable


class StartPhases:
    def __init__(self, loaded_s: float, now: Callable[[], float]) -> None:
        """`loaded_s`: how long the process has been there, in which it has loaded its code."""
        self.seconds = {"to load": loaded_s}
        """How long each phase took, in their order."""
        self._now = now
        self._began = now()

    def passed(self, phase: str) -> None:
        """The phase ends, and the next begins."""
        now = self._now()
        self.seconds[phase] = now - self._began
        self._began = now
