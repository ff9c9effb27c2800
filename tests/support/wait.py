"""Waiting for a condition with a deadline, instead of sleeping for luck."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

POLL_SECONDS = 0.01
PATIENCE = 3 if "PYTEST_XDIST_WORKER" in os.environ else 1
"""Tests that run side by side have half a machine, and a deadline is not a benchmark."""


def wait_until(condition: Callable[[], T], what: str, *, timeout_s: float = 15.0) -> T:
    """The first true answer of `condition`; an AssertionError that says `what` did not happen otherwise."""
    timeout_s *= PATIENCE
    deadline = time.monotonic() + timeout_s
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() >= deadline:
            raise AssertionError(f"{what}: not within {timeout_s:g} s (last seen: {answer!r})")
        time.sleep(POLL_SECONDS)
