"""The transactions of a partition: which are open, and which were aborted. Pure.

Derived from the bytes of the log, on every replica alike. A reader of committed data stops at the first open
transaction (the *last stable offset*), and is told which of what it gets was aborted.

A transaction whose marker is not committed yet (at or above the high watermark) counts as open: another
leader may not have the marker.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from typing import Any, NamedTuple


class AbortedTransaction(NamedTuple):
    """Of this producer, everything from `first_offset` up to the marker at `last_offset` was aborted."""

    producer_id: int
    first_offset: int
    last_offset: int
    open_from: int = -1
    """Where the first of the transactions began that were open after it: whatever ended later begins there or
    behind. -1 in what earlier versions wrote down, which did not note it."""


class _Ended(NamedTuple):
    first_offset: int
    marker_offset: int


class Transactions:
    def __init__(self) -> None:
        self.open: dict[int, int] = {}
        """Producer id to the first offset of its open transaction."""
        self._ended: list[_Ended] = []
        """By marker offset; those whose marker may not be committed yet."""
        self._aborted: list[AbortedTransaction] = []
        """By last offset."""

    def begin(self, producer_id: int, first_offset: int) -> None:
        """A transactional batch was appended; the transaction may have begun before."""
        self.open.setdefault(producer_id, first_offset)

    def end(self, producer_id: int, marker_offset: int, *, is_commit: bool) -> None:
        """A marker was appended. One without a transaction, such as a repeated one, ends nothing."""
        first_offset = self.open.pop(producer_id, None)
        if first_offset is None:
            return
        self._ended.append(_Ended(first_offset, marker_offset))
        if not is_commit:
            open_from = min(self.open.values(), default=marker_offset + 1)
            self._aborted.append(AbortedTransaction(producer_id, first_offset, marker_offset, open_from))

    def last_stable_offset(self, high_watermark: int) -> int:
        if self._ended and self._ended[0].marker_offset < high_watermark:
            del self._ended[: bisect_left(self._ended, high_watermark, key=lambda each: each.marker_offset)]
        first_open = min(self.open.values(), default=high_watermark)
        first_ended = min((each.first_offset for each in self._ended), default=high_watermark)
        return min(high_watermark, first_open, first_ended)

    def has_aborted(self, start: int) -> bool:
        """Whether any was aborted that ends at or behind `start`."""
        return bool(self._aborted) and self._aborted[-1].last_offset >= start

    def aborted_between(self, start: int, end: int) -> list[AbortedTransaction]:
        """Those with records in [start, end), by first offset."""
        found = []
        place = bisect_left(self._aborted, start, key=lambda each: each.last_offset)
        for each in islice(self._aborted, place, None):
            if each.first_offset < end:
                found.append(each)
            if each.open_from >= end:
                break
        return sorted(found, key=lambda each: each.first_offset)

    def start_at(self, offset: int) -> None:
        """Nothing before the offset can be read any more."""
        del self._aborted[: bisect_left(self._aborted, offset, key=lambda each: each.last_offset)]

    def to_json(self) -> dict[str, Any]:
        return {
            "open": sorted(self.open.items()),
            "ended": [list(each) for each in self._ended],
            "aborted": [list(each) for each in self._aborted],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Transactions:
        transactions = cls()
        transactions.open = dict(map(tuple, value["open"]))
        transactions._ended = [_Ended(*each) for each in value["ended"]]
        transactions._aborted = [AbortedTransaction(*each) for each in value["aborted"]]
        return transactions
