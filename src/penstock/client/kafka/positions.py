"""What the cluster knows of a consumer's positions: nothing until somebody knows its id, then everything."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.client.kafka.control import Control, Partition


class Positions:
    def __init__(self, control: Control, *, remembered: bool) -> None:
        self._control = control
        self._remembered = remembered
        self._uncommitted: dict[Partition, int] = {}
        self._lock = threading.Lock()

    def stored(self, topic: str, indexes: Iterable[int]) -> dict[int, int]:
        """Where this consumer stopped, in those partitions where it is known."""
        return self._control.committed(topic, indexes) if self._remembered else {}

    def take(self, topic: str, index: int, offset: int) -> None:
        """The message at `offset` is about to be handed out, never to be got again."""
        with self._lock:
            if self._remembered:
                self._control.commit({(topic, index): offset + 1})
            else:
                self._uncommitted[topic, index] = offset + 1

    def remember(self) -> None:
        with self._lock:
            if self._uncommitted:
                self._control.commit(self._uncommitted)
                self._uncommitted.clear()
            self._remembered = True
