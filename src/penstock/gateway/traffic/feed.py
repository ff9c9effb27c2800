"""The heat map and those who follow it: each is woken when something has changed, and takes what it has not
seen. One that is busy sending misses nothing and holds up nobody: next time it gets all changes as one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.gateway.traffic.heat_map import HeatMap
from penstock.gateway.traffic.heat_view import HeatView

if TYPE_CHECKING:
    from penstock.kafka.records import ReadRecord
    from penstock.traffic.grid import BBox, Grid


class HeatFeed:
    def __init__(self, cells_max: int, grid: Grid) -> None:
        self.map = HeatMap(cells_max)
        self._view = HeatView(self.map, grid)
        self._changed = asyncio.Event()
        self.life = 0
        """Another one: all that was told before is void."""

    def apply(self, records: list[ReadRecord]) -> None:
        number = self.map.number
        for record in records:
            self.map.apply(record.key, record.value, record.timestamp_ms)
        if self.map.number != number:
            self._wake()

    def clear(self) -> None:
        has_told = self.map.totals is not None or self.map.spans
        self.map.clear()
        if has_told:
            self.life += 1
            self._wake()

    def redraw(self, grid: Grid) -> None:
        self._view.redraw(grid)
        self._wake()

    def snapshot(self, box: BBox | None) -> bytes:
        return self._view.snapshot(box)

    def recent(self) -> tuple[bytes, int]:
        """Events for who begins to follow, and the number from which on to ask for changes."""
        return self._view.recent(), self.map.number

    async def changes(self, since: int) -> tuple[bytes, int]:
        """As soon as there are some."""
        while self.map.number <= since:
            await self._changed.wait()
        return self._view.changes(since), self.map.number

    def _wake(self) -> None:
        """Who waits goes on; who waits from now on waits for what comes next."""
        self._changed.set()
        self._changed.clear()
