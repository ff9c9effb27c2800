"""Waiting for a condition with a deadline, instead of sleeping for luck."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

POLL_SECONDS = 0.01


def wait_until(condition: Callable[[], T], what: str, *, timeout_s: float = 15.0) -> T:
    """The first true answer of `condition`; an AssertionError that says `what` did not happen otherwise."""
    deadline = time.monotonic() + timeout_s
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() >= deadline:
            raise AssertionError(f"{what}: not within {timeout_s:g} s (last seen: {answer!r})")
        time.sleep(POLL_SECONDS)
