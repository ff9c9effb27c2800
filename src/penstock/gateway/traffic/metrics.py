"""Traffic in numbers, beside those of the streams."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from penstock.gateway.traffic.feed import HeatFeed


class TrafficMetrics:
    """Made with the first request. How many follow the map is among the streams, as `traffic`."""

    def __init__(self, registry: CollectorRegistry, feed: HeatFeed) -> None:
        self._written = Counter(
            "penstock_gateway_traffic_positions", "Positions written by requests.", registry=registry
        )
        behind = Gauge(
            "penstock_gateway_traffic_seconds_behind",
            "How old the newest position of the heat map is; NaN without one.",
            registry=registry,
        )
        behind.set_function(lambda: seconds_behind(feed, time.time()))

    def written(self, positions: int) -> None:
        self._written.inc(positions)


def seconds_behind(feed: HeatFeed, now_s: float) -> float:
    totals = feed.map.totals
    return math.nan if totals is None or totals.newest is None else now_s - totals.newest / 1000
