from __future__ import annotations

import gc
from typing import Any

from tests.support.steps import steps


class Cycle:
    """Ends by the collector alone, and runs some lines then."""

    def __init__(self) -> None:
        self.me: Any = self

    def __del__(self) -> None:
        for _ in range(100):
            pass


def some_work() -> None:
    for _ in range(10):
        _ = [[] for _ in range(10)]


def test_what_the_collector_does_meanwhile_is_not_counted() -> None:
    expected = steps(some_work)
    thresholds = gc.get_threshold()
    try:
        gc.set_threshold(5)
        Cycle()
        assert steps(some_work) == expected
    finally:
        gc.set_threshold(*thresholds)
    assert gc.isenabled()
