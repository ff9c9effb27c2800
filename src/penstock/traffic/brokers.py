"""Where the traffic client finds its brokers."""

from __future__ import annotations

from penstock.client.kafka.cluster import Cluster as Brokers
from penstock.client.types import check_timeout, is_http


def brokers_at(broker: str, timeout_s: float) -> Brokers:
    """ValueError for what is not one or several addresses of brokers."""
    if is_http(broker):
        raise ValueError(
            f"broker {broker!r} is a gateway: the traffic client speaks the Kafka protocol, HOST:PORT"
        )
    return Brokers(broker, check_timeout(timeout_s))
