"""A wish to end that a signal handler may utter, and that may be waited for.

A handler runs in the main thread, in the middle of whatever that does. An event of `threading` has a lock:
set by a handler that came while its thread had the lock in `wait`, it would wait for itself for ever.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import contextmanager


class Stop:
    def __init__(self, reading: int, writing: int) -> None:
        """The two ends of a pipe: what is written is never read, so that whoever waits gets to know it."""
        self._reading = reading
        self._writing = writing
        self._is_set = False

    def set(self) -> None:
        if not self._is_set:
            self._is_set = True
            os.write(self._writing, b"!")

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, seconds: float | None) -> bool:
        """Whether it is set, at the latest after so many seconds."""
        if not self._is_set:
            select.select([self._reading], [], [], seconds)
        return self._is_set


@contextmanager
def new_stop() -> Iterator[Stop]:
    reading, writing = os.pipe()
    try:
        yield Stop(reading, writing)
    finally:
        os.close(writing)
        os.close(reading)
