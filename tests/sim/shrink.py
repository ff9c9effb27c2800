"""From a history that fails to a small one that fails in the same way.

Faults are taken out in ever smaller pieces, down to single ones, as long as what is left still fails
(delta debugging). What is left is seldom the smallest of all, but none of its faults can be missed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

from tests.sim.faults import Fault

Fails = Callable[[list[Fault]], str | None]
"""Runs a history with these faults alone: how it fails, see `kind_of`, or None."""


def kind_of(error: BaseException) -> str:
    """What was violated, whoever did it and wherever."""
    text = re.sub(r"\[.*\]|\([^()]*\)|\d+", "", str(error))
    return f"{type(error).__name__}: {' '.join(text.split())}"


def shrink(faults: Sequence[Fault], fails: Fails, kind: str, seconds_max: float) -> list[Fault]:
    """The faults that are needed for a failure of this kind, or as few as could be found in that time."""
    deadline = time.monotonic() + seconds_max
    needed = list(faults)
    size = len(needed)
    while size:
        for start in range(0, len(needed), size):
            without = needed[: max(0, len(needed) - start - size)] + needed[len(needed) - start :]
            if time.monotonic() > deadline:
                return needed
            if len(without) < len(needed) and fails(without) == kind:
                needed = without
                break
        else:
            size = size // 2
        size = min(size, len(needed))
    return needed
