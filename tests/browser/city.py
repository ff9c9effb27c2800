"""A city for the browser, and what the screen has of it. No job runs: tests write the heat map themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from penstock.traffic import DEFAULT_GRID, Cell, publish_map
from penstock.traffic.position import FUTURE_MS_MAX
from penstock.traffic.topics import HEATMAP
from tests.browser.flights_service import check_delivery
from tests.support.browser import WAIT_MS_MAX
from tests.support.topics import create_topic
from tests.support.traffic import heat_messages, now_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.browser import Console

CELLS = DEFAULT_GRID.cells
WINDOW_MS = 1_000
"""Short ones: the city may pass many, and be ahead of the clock by no more than a position may."""
STEP_MS = 100
"""At least, from batch to batch: else it can not be told which one is shown."""
WRITE_S_MAX = 15.0
QUADRANTS = [(row, col) for row in range(DEFAULT_GRID.rows) for col in range(DEFAULT_GRID.cols)]

SHOWN = "newest => (window.__penstockMap?.newest ?? 0) >= newest"
# Drawn and read in one go: the browser clears what was drawn when it has shown it.
PIXEL = """([lon, lat]) => {
  const map = window.__penstockMap.map;
  map.redraw();
  const canvas = map.getCanvas();
  const gl = canvas.getContext('webgl2');
  const ratio = canvas.width / canvas.clientWidth;
  const {x, y} = map.project([lon, lat]);
  const found = new Uint8Array(4);
  const [left, bottom] = [Math.round(x * ratio), canvas.height - Math.round(y * ratio)];
  gl.readPixels(left, bottom, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, found);
  return [...found];
}"""
IDLE = "() => { const map = window.__penstockMap.map; return map.loaded() && !map.isMoving(); }"


def streets() -> dict[str, Any]:
    """A few lines, away from the middles of the quadrants."""
    box = DEFAULT_GRID.bbox
    middle = (box.south + box.north) / 2
    line = {"type": "LineString", "coordinates": [[box.west, middle], [box.east, middle]]}
    street = {"type": "Feature", "geometry": line, "properties": {"kind": "avenue", "name": "Middle"}}
    return {"type": "FeatureCollection", "features": [street]}


def middle_of(quadrant: tuple[int, int]) -> Cell:
    row, col = quadrant
    return Cell(row * CELLS + CELLS // 2, col * CELLS + CELLS // 2)


class City:
    """Writes batches of heat. Event time, which no clock can stop, is the city's own: it never goes back."""

    def __init__(self, bootstrap: str) -> None:
        # One for all batches: a new one takes longer to get to know the cluster than to write. It lingers, so
        # that what is written together comes to the page together.
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20, "log_level": 0}
        )
        self._sent = 0
        self._now_ms = 0
        create_topic(bootstrap, HEATMAP)
        publish_map(bootstrap, DEFAULT_GRID, streets())

    def heat(self, counts: Mapping[tuple[int, int], int], *, windows_later: int = 0, ago_ms: int = 0) -> int:
        """So many positions in the middle of each quadrant; the time of the newest."""
        self._now_ms = max(self._now_ms + windows_later * WINDOW_MS + STEP_MS, now_ms() - ago_ms)
        newest = self._now_ms
        places: dict[tuple[int, int], int] = {}
        for quadrant, count in counts.items():
            cell = middle_of(quadrant)
            places |= {(cell.row + i, cell.col + j): count for i in (-1, 0, 1) for j in (-1, 0, 1)}
        self._sent += sum(places.values())
        assert newest < now_ms() + FUTURE_MS_MAX, "the gateway would refuse it"
        for message in heat_messages(newest // WINDOW_MS, places, self._sent, newest, WINDOW_MS):
            self._producer.produce(HEATMAP, on_delivery=check_delivery, **message)
        assert self._producer.flush(WRITE_S_MAX) == 0
        return newest

    def forget(self) -> None:
        """What was written before does not reach into what comes now."""
        self._now_ms = max(self._now_ms + 4 * WINDOW_MS, now_ms())

    @property
    def sent(self) -> int:
        return self._sent


def wait_shown(console: Console, newest: int, *, by_webgl: bool = True) -> None:
    """The map shows this batch, or a later one."""
    console.page.wait_for_function(SHOWN, arg=newest, timeout=WAIT_MS_MAX)
    if by_webgl:
        wait_drawn(console)


def wait_drawn(console: Console) -> None:
    """The map has nothing left to do."""
    console.page.wait_for_function(IDLE, timeout=WAIT_MS_MAX)


def colour(console: Console, quadrant: tuple[int, int]) -> tuple[int, ...]:
    """What the screen has in the middle of a quadrant."""
    lat, lon = DEFAULT_GRID.cell_center(middle_of(quadrant))
    return tuple(console.page.evaluate(PIXEL, [lon, lat]))


def difference(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))
