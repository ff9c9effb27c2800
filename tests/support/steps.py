"""What something costs, counted instead of timed."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps(work: Callable[[], object]) -> int:
    """Lines that Python runs: the same for the same work, on any machine.

    The collector waits meanwhile: it comes when it likes, and what ends by it may run lines of its own.
    """
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before, collects = sys.gettrace(), gc.isenabled()
    gc.disable()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()
    return count
