"""A bound on the memory that indexes of closed segments take, over all logs of a node."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.storage.descriptors import Descriptors
    from penstock.storage.segment import Segment

ENTRIES_MAX = 1_000_000  # 24 MB: 64 GB of segments at the default interval
ENTRIES_OVERHEAD = 16
"""An index in memory costs something even when it is short."""


class IndexCache:
    def __init__(self, descriptors: Descriptors, entries_max: int = ENTRIES_MAX) -> None:
        self.descriptors = descriptors
        self.entries_max = entries_max
        self.entries = 0
        self._costs: OrderedDict[Segment, int] = OrderedDict()
        self._lock = threading.Lock()  # logs are opened and closed several at a time

    def used(self, segment: Segment) -> None:
        """The index of a closed segment was needed: it stays, others that were not may go."""
        with self._lock:
            if segment in self._costs:
                self._costs.move_to_end(segment)
                return
            cost = self._costs[segment] = len(segment.index or ()) + ENTRIES_OVERHEAD
            self.entries += cost
            while self.entries > self.entries_max and len(self._costs) > 1:
                unused, cost = self._costs.popitem(last=False)
                unused.index = None
                self.entries -= cost

    def forget(self, segment: Segment) -> None:
        """The segment is gone, or active again."""
        with self._lock:
            self.entries -= self._costs.pop(segment, 0)
