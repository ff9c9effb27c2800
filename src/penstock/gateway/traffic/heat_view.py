"""The heat map in the shape in which it is handed out: JSON with the places of cells, whole or as events.

Everything is written once for all who ask for the same: the whole map, what changed in the last batch, and
what changed since an earlier one for readers that have fallen behind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson

from penstock.client.errors import TopicClusterDoesNotExistError
from penstock.gateway.streams.event_stream import event
from penstock.gateway.traffic.boxes import is_in
from penstock.gateway.traffic.heat_map import Change, HeatMap, Place
from penstock.traffic.grid import BBox, Cell, Grid

RECENT_WINDOWS: Final = 2
"""Told to whoever begins to follow: the newest has only just begun."""
NOTHING: Final = Change(None, [])

Center = tuple[float, float]


class HeatView:
    def __init__(self, heat_map: HeatMap, grid: Grid) -> None:
        self._map = heat_map
        self._grid = grid
        self._centers: dict[Place, Center] = {}
        self._written: dict[int | str, bytes] = {}
        self._written_number = -1

    def redraw(self, grid: Grid) -> None:
        """The map of the city is another one: cells lie elsewhere, for everybody."""
        if grid == self._grid:
            return
        self._grid = grid
        self._centers = {}
        self._map.touch()

    def snapshot(self, box: BBox | None) -> bytes:
        """The newest window."""
        if box is None:
            return self._once("snapshot", lambda: self._newest(None))
        return self._newest(box)

    def recent(self) -> bytes:
        """Events for somebody who knows nothing yet: the newest windows, the older first."""
        spans = reversed(self._map.spans[:RECENT_WINDOWS])
        return self._once("recent", lambda: b"".join(self._event(self._map.window(span)) for span in spans))

    def changes(self, since: int) -> bytes:
        """Events for somebody who was told everything up to that batch."""
        return self._once(since, lambda: b"".join(map(self._event, self._map.changes(since))))

    def _once(self, what: int | str, write: Callable[[], bytes]) -> bytes:
        if self._written_number != self._map.number:
            self._written_number = self._map.number
            self._written = {}
        written = self._written.get(what)
        if written is None:
            written = self._written[what] = write()
        return written

    def _newest(self, box: BBox | None) -> bytes:
        spans = self._map.spans
        return orjson.dumps(self._fields(self._map.window(spans[0]) if spans else NOTHING, box))

    def _event(self, change: Change) -> bytes:
        return event(orjson.dumps(self._fields(change, None)))

    def _fields(self, change: Change, box: BBox | None) -> dict[str, Any]:
        cells = []
        for place, heat in change.cells:
            center = self._center(place)
            if center is None or (box is not None and not is_in(box, *center)):
                continue
            row, col = place
            lat, lon = center
            cells.append(
                {"row": row, "col": col, "lat": lat, "lon": lon, "count": heat.counted, "speed": heat.speed}
            )
        span, totals = change.span, self._map.totals
        return {
            "window": None if span is None else {"start": span[0], "end": span[1]},
            "cells": cells,
            "newest": None if totals is None else totals.newest,
            "totals": None if totals is None else totals.as_dict(),
        }

    def _center(self, place: Place) -> Center | None:
        """None for a cell that is not on this map."""
        center = self._centers.get(place)
        if center is None:
            try:
                center = self._grid.cell_center(Cell(*place))
            except TopicClusterDoesNotExistError:
                return None
            self._centers[place] = center
        return center
