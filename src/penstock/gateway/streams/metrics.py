"""What streams do, in numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    PlatformCollector,
    ProcessCollector,
)


class StreamMetrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._open = Gauge(
            "penstock_gateway_streams", "Streams that are open.", ["kind"], registry=self.registry
        )
        self._sent = Counter(
            "penstock_gateway_messages_sent", "Messages sent on streams.", ["kind"], registry=self.registry
        )
        self._answered = Counter(
            "penstock_gateway_messages_answered",
            "Messages that came by WebSocket and were answered.",
            registry=self.registry,
        )
        self._stalled = Counter(
            "penstock_gateway_streams_stalled",
            "Readers that were let go since they took nothing.",
            registry=self.registry,
        )

    @contextmanager
    def stream(self, kind: str) -> Iterator[None]:
        """While a stream is open."""
        self._open.labels(kind).inc()
        try:
            yield
        finally:
            self._open.labels(kind).dec()

    def sent(self, kind: str, messages: int) -> None:
        self._sent.labels(kind).inc(messages)

    def answered(self, messages: int) -> None:
        self._answered.inc(messages)

    def stalled(self) -> None:
        self._stalled.inc()
