"""The heat map as the gateway holds it: the last few windows, made of the records of `traffic.heatmap`. Pure.

The job writes what changed in a micro-batch and then the totals. What has come of a batch is kept aside until
its totals are there, so that readers see whole batches. Figures are absolute: a batch that is written again
changes nothing, and the log may be read from anywhere.

Each batch that changes something has a number, and each cell remembers the last that changed it. A reader
remembers the last that it was told. So what it has missed is known however long it was away, as one change to
each cell, and nothing is queued for anybody.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import orjson

from penstock.client.errors import InvalidMessageError
from penstock.traffic.heat import HeatCell, Totals, parse_heat
from penstock.traffic.position import FUTURE_MS_MAX

WINDOWS_MAX: Final = 6
"""As many as can still change, with the job's defaults, and two more."""

Place = tuple[int, int]
"""Row and column."""


Span = tuple[int, int]
"""A window, from when up to and without when. The one that begins last is the newest."""


class Figure(NamedTuple):
    """What a record says."""

    span: Span
    place: Place
    counted: int
    speed: float | None


class Heat(NamedTuple):
    counted: int
    speed: float | None
    changed_in: int


class Change(NamedTuple):
    span: Span | None
    """None while no window is known: then only totals are."""
    cells: list[tuple[Place, Heat]]


class HeatMap:
    def __init__(self, cells_max: int) -> None:
        """`cells_max`: of all windows together."""
        self._cells_max = cells_max
        self._windows: dict[Span, dict[Place, Heat]] = {}
        self._size = 0
        self._coming: dict[bytes | None, Figure] = {}
        self.totals: Totals | None = None
        self.number = 0
        """Of the last batch that has changed something."""
        self.refused = 0
        """Records that are not what they should be."""

    @property
    def spans(self) -> list[Span]:
        """The newest first."""
        return sorted(self._windows, reverse=True)

    def apply(self, key: bytes | None, value: bytes | None, timestamp_ms: int) -> None:
        """The next record of the log; `timestamp_ms` is when it was written."""
        figure = plain_figure(key, value)
        if figure is None:
            try:
                found = parse_heat(key, value)
            except InvalidMessageError:
                self.refused += 1
                return
            if not isinstance(found, HeatCell):
                if found is not None:
                    self._show(found)
                return
            figure = Figure((found.start_ms, found.end_ms), (found.row, found.col), found.count, found.speed)
        # Whatever claims to be further ahead than any position may be would stay the newest for ever.
        if figure.span[0] > timestamp_ms + FUTURE_MS_MAX:
            self.refused += 1
            return
        self._coming[key] = figure
        if len(self._coming) >= self._cells_max:  # nobody ends this batch; each figure is right by itself
            self._show(self.totals)

    def clear(self) -> None:
        """The topic is gone, and what it said with it. Numbers go on."""
        self._windows.clear()
        self._coming.clear()
        self._size = 0
        self.totals = None
        self.number += 1

    def touch(self) -> None:
        """All of it is to be told again, as if it had changed."""
        self.number += 1
        for window in self._windows.values():
            for place, heat in window.items():
                window[place] = heat._replace(changed_in=self.number)

    def window(self, span: Span) -> Change:
        """All of a window."""
        return Change(span, list(self._windows[span].items()))

    def changes(self, since: int) -> Iterator[Change]:
        """What has changed after that batch: by window, the oldest first. Changed totals alone are told with
        the newest window and no cells."""
        if since >= self.number:
            return
        told = False
        for span in sorted(self._windows):
            window = self._windows[span]
            cells = [(place, heat) for place, heat in window.items() if heat.changed_in > since]
            if cells:
                told = True
                yield Change(span, cells)
        if not told:
            yield Change(max(self._windows, default=None), [])

    def _show(self, totals: Totals | None) -> None:
        number = self.number + 1
        changed = totals != self.totals
        for span, place, counted, speed in self._coming.values():
            window = self._windows.get(span)
            if window is None:
                window = self._open(span)
                if window is None:
                    continue
            known = window.get(place)
            if known is None:
                if self._size >= self._cells_max and not self._drop_older_than(span):
                    self.refused += 1
                    continue
                self._size += 1
            elif known[0] == counted and known[1] == speed:
                continue
            window[place] = Heat(counted, speed, number)
            changed = True
        self._coming.clear()
        self.totals = totals
        if changed:
            self.number = number

    def _open(self, span: Span) -> dict[Place, Heat] | None:
        """None if it is older than all that are kept."""
        if len(self._windows) >= WINDOWS_MAX:
            oldest = min(self._windows)
            if span < oldest:
                return None
            self._drop(oldest)
        window: dict[Place, Heat] = {}
        self._windows[span] = window
        return window

    def _drop_older_than(self, span: Span) -> bool:
        """Makes room in favour of a newer window."""
        oldest = min(self._windows)
        if oldest >= span:
            return False
        self._drop(oldest)
        return True

    def _drop(self, span: Span) -> None:
        self._size -= len(self._windows.pop(span))


def plain_figure(key: bytes | None, value: bytes | None) -> Figure | None:
    """A record of a cell as the job writes it, since there are thousands of them each second. None for
    everything else, which is then looked at more closely."""
    try:
        found = orjson.loads(value or b"")
        row, col, start, end = found["row"], found["col"], found["start"], found["end"]
        counted, speed = found["count"], found["speed"]
        if (
            type(row) is type(col) is type(start) is type(end) is type(counted) is int
            and row >= 0 <= col
            and 0 <= start < end
            and counted > 0
            and type(speed) is float
            and speed >= 0.0
            and key == b"%d.%d.%d" % (row, col, start)
        ):
            return Figure((start, end), (row, col), counted, speed)
    except (orjson.JSONDecodeError, KeyError, TypeError):
        pass  # the closer look says what is wrong
    return None
