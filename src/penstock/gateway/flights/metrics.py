"""Uploads in numbers, beside those of the streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from penstock.gateway.flights.uploads import Uploads


class FlightsMetrics:
    """Made with the first request. How many read results is among the streams, as `flights`."""

    def __init__(self, registry: CollectorRegistry, uploads: Uploads) -> None:
        self._chunks = Counter(
            "penstock_gateway_flights_chunks", "Chunks written by requests.", ["file"], registry=registry
        )
        self._bytes = Counter(
            "penstock_gateway_flights_bytes", "Bytes of these chunks.", ["file"], registry=registry
        )
        self._repeated = Counter(
            "penstock_gateway_flights_repeated",
            "Chunks that were there before and were not written again.",
            registry=registry,
        )
        self._refused = Counter(
            "penstock_gateway_flights_refused",
            "Requests about uploads that were refused, by the reason.",
            ["reason"],
            registry=registry,
        )
        behind = Gauge(
            "penstock_gateway_flights_behind_bytes",
            "Bytes that this gateway has written and the service has not told of.",
            registry=registry,
        )
        behind.set_function(lambda: uploads.behind)

    def written(self, file: str, size: int) -> None:
        self._chunks.labels(file).inc()
        self._bytes.labels(file).inc(size)

    def repeated(self) -> None:
        self._repeated.inc()

    def refused(self, reason: str) -> None:
        self._refused.labels(reason).inc()
