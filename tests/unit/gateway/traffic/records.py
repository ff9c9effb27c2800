"""Records of `traffic.heatmap`, as the job writes them."""

from __future__ import annotations

from penstock.kafka.records import ReadRecord
from penstock.traffic.heat import HeatCell, Totals

WINDOW_MS = 5_000

Pair = tuple[bytes, bytes]


def cell(row: int, col: int, window: int, count: int, speed: float | None = 30.0) -> Pair:
    """`window` is its number."""
    start = window * WINDOW_MS
    found = HeatCell(row, col, start, start + WINDOW_MS, count, speed if count else None)
    return found.key, found.to_json()


def totals(sent: int, newest: int | None = None) -> Pair:
    found = Totals(sent=sent, counted=sent, newest=newest)
    return found.key, found.to_json()


def read(pairs: list[Pair], timestamp_ms: int = 10**12) -> list[ReadRecord]:
    return [ReadRecord(0, offset, timestamp_ms, *pair) for offset, pair in enumerate(pairs)]
