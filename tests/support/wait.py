"""Waiting for a condition with a deadline, instead of sleeping for luck."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

POLL_SECONDS = 0.01
POLL_SECONDS_MAX = 0.2
POLL_SHARE = 0.05
"""Of the time that was waited so far: who looks all the time takes from what it waits for."""
PATIENCE = 3 if "PYTEST_XDIST_WORKER" in os.environ else 1
"""Tests that run side by side have half a machine, and a deadline is not a benchmark."""
waited_for: list[tuple[int, str]] = []
"""(thread, what) of every wait under way: see costs.py."""


def wait_until(
    condition: Callable[[], T],
    what: str,
    *,
    timeout_s: float = 15.0,
    at_once: bool = False,
    event: Callable[[float], object] | None = None,
) -> T:
    """The first true answer of `condition`; an AssertionError that says `what` did not happen otherwise.

    With `at_once` the moment matters, however long it takes to come. `event` returns when the answer may have
    changed, at the latest after so many seconds: then nothing is polled.
    """
    waited_for.append((threading.get_ident(), what))
    try:
        return _wait_until(condition, what, timeout_s * PATIENCE, at_once=at_once, event=event)
    finally:
        waited_for.remove((threading.get_ident(), what))


def _wait_until(
    condition: Callable[[], T],
    what: str,
    timeout_s: float,
    *,
    at_once: bool,
    event: Callable[[float], object] | None,
) -> T:
    began = time.monotonic()
    deadline = began + timeout_s
    while True:
        answer = condition()
        if answer:
            return answer
        now = time.monotonic()
        if now >= deadline:
            raise AssertionError(f"{what}: not within {timeout_s:g} s (last seen: {answer!r})")
        if event is not None:
            event(deadline - now)
            continue
        waited_s = now - began
        longer_s = 0.0 if at_once else min(POLL_SECONDS_MAX, waited_s * POLL_SHARE)
        time.sleep(max(POLL_SECONDS, longer_s))
