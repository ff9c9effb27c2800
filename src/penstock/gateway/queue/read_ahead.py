"""Messages read ahead for consumers that take one after the other. Pure.

A run is what one fetch brought for one consumer: all messages from an offset up to another. It is good for a
short while only, since the topic could be deleted, and as far as the memory for all runs goes.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from penstock.kafka.records import Fetched, ReadRecord

GOOD_S: Final = 2.0


class RunKey(NamedTuple):
    consumer: int
    topic_id: str
    partition: int


@dataclass(slots=True)
class Run:
    first: int
    """Every message from here on ..."""
    end: int
    """... and before this offset is in `records`, or was."""
    records: deque[ReadRecord]
    bytes: int
    read_at: float


class ReadAhead:
    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._runs: OrderedDict[RunKey, Run] = OrderedDict()

    def __len__(self) -> int:
        return len(self._runs)

    def put(self, key: RunKey, first: int, fetched: Fetched, now: float) -> None:
        self._drop(key)
        if not fetched.records:
            return
        size = sum(record.size for record in fetched.records)
        self._runs[key] = Run(first, fetched.next_offset, deque(fetched.records), size, now)
        self._bytes += size
        while self._bytes > self._bytes_max and len(self._runs) > 1:
            self._drop(next(iter(self._runs)))

    def next(self, key: RunKey, position: int, now: float) -> ReadRecord | None:
        """The first message at `position` or after it, if it was read."""
        run = self._runs.get(key)
        if run is None:
            return None
        if not run.first <= position < run.end or now - run.read_at > GOOD_S:
            self._drop(key)
            return None
        while run.records and run.records[0].offset < position:
            run.records.popleft()
        if not run.records:
            self._drop(key)
            return None
        self._runs.move_to_end(key)
        return run.records[0]

    def _drop(self, key: RunKey) -> None:
        run = self._runs.pop(key, None)
        if run is not None:
            self._bytes -= run.bytes
