"""The heat map as the job would write it, and readers of it, for tests without a job."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from penstock.traffic.heat import HeatCell, Totals
from penstock.traffic.topics import HEATMAP
from tests.support.topics import fill_all
from tests.support.wait import PATIENCE

RECEIVE_S_MAX = 30.0
WINDOW_MS = 5_000

Places = Mapping[tuple[int, int], int]
"""Row and column -> how many were counted."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def heat_messages(
    window: int, places: Places, sent: int, newest: int, window_ms: int = WINDOW_MS
) -> list[dict[str, Any]]:
    """A batch: cells of one window, which is its number, and totals."""
    start = window * window_ms
    cells = [
        HeatCell(row, col, start, start + window_ms, count, 30.0 if count else None)
        for (row, col), count in places.items()
    ]
    records = [*cells, Totals(sent=sent, counted=sent, newest=newest)]
    return [{"key": record.key, "value": record.to_json(), "partition": 0} for record in records]


def write_heat(bootstrap: str, window: int, places: Places, sent: int, newest: int | None = None) -> None:
    messages = heat_messages(window, places, sent, now_ms() if newest is None else newest)
    fill_all(bootstrap, HEATMAP, messages)


class HeatEvents:
    """A stream of the heat map, and what it has told: like a browser, it keeps the newest figure of each."""

    def __init__(self, response: httpx.Response) -> None:
        self._lines = response.iter_lines()
        self.counts: dict[tuple[int, int, int], int] = {}
        """Start, row and column -> count."""
        self.events = 0
        self.sent = 0
        self.failure: str | None = None
        """What the stream said before it ended."""

    def take(self) -> dict[str, Any]:
        """The next event; AssertionError when the stream has ended."""
        name = ""
        for line in self._lines:
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            if not line.startswith("data: "):
                continue
            found: dict[str, Any] = json.loads(line.removeprefix("data: "))
            if name == "error":
                self.failure = found["message"]
                continue
            self.events += 1
            self._keep(found)
            return found
        raise AssertionError("the stream has ended")

    def _keep(self, found: dict[str, Any]) -> None:
        for cell in found["cells"]:
            self.counts[found["window"]["start"], cell["row"], cell["col"]] = cell["count"]
        if found["totals"] is not None:
            self.sent = found["totals"]["sent"]

    def until(self, sent: int) -> None:
        while self.sent < sent:
            self.take()

    def until_end(self) -> None:
        try:
            while True:
                self.take()
        except AssertionError:
            return


@contextmanager
def follow_heat(url: str, car: str | None = None, **cookies: str) -> Iterator[HeatEvents]:
    with (
        httpx.Client(timeout=RECEIVE_S_MAX * PATIENCE, trust_env=False, cookies=cookies) as client,
        client.stream(
            "GET", f"{url}/v1/traffic/heatmap/stream", params={} if car is None else {"car": car}
        ) as response,
    ):
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield HeatEvents(response)


def viewer_cookies(url: str) -> dict[str, str]:
    """What a browser has that has opened the console."""
    with httpx.Client(trust_env=False, timeout=RECEIVE_S_MAX) as client:
        return dict(client.get(f"{url}/v1/console").cookies)
