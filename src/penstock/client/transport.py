"""Which way messages travel: by the Kafka protocol, or over HTTP. Only the one that is used is imported."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.client.types import is_http

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.client.http.gateway import Gateway
    from penstock.client.kafka.cluster import Cluster
    from penstock.client.kafka.publisher import KafkaPublisher
    from penstock.client.kafka.subscriber import KafkaSubscriber
    from penstock.client.pubsub.messages import Partition
    from penstock.client.types import ConsumerTransport, ProducerTransport


def open_producer(
    topics: tuple[str, ...], broker: str, token: str | None, timeout_s: float
) -> ProducerTransport:
    if is_http(broker):
        from penstock.client.http.producer import HttpProducer

        gateway = _gateway(broker, token, timeout_s)
        with _closed_on_failure(gateway):
            return HttpProducer(gateway, topics)
    from penstock.client.kafka.producer import KafkaProducer

    return KafkaProducer(_cluster(broker, token, timeout_s), topics)


def open_consumer(
    topics: tuple[str, ...],
    broker: str,
    given_id: int | Mapping[str, int] | None,
    token: str | None,
    timeout_s: float,
) -> ConsumerTransport:
    if is_http(broker):
        from penstock.client.http.consumer import HttpConsumer

        gateway = _gateway(broker, token, timeout_s)
        with _closed_on_failure(gateway):
            return HttpConsumer(gateway, topics, given_id)
    from penstock.client.kafka.consumer import KafkaConsumer

    return KafkaConsumer(_cluster(broker, token, timeout_s), topics, given_id)


def open_publisher(name: str, broker: str, timeout_s: float) -> KafkaPublisher:
    _require_kafka(broker, "Publisher")
    from penstock.client.kafka.publisher import KafkaPublisher

    return KafkaPublisher(_cluster(broker, None, timeout_s), name)


def open_subscriber(
    name: str, broker: str, positions: dict[Partition, int] | None, timeout_s: float
) -> KafkaSubscriber:
    _require_kafka(broker, "Subscriber")
    from penstock.client.kafka.subscriber import KafkaSubscriber

    return KafkaSubscriber(_cluster(broker, None, timeout_s), name, positions)


def _require_kafka(broker: str, kind: str) -> None:
    if is_http(broker):
        raise ValueError(f"a {kind} speaks to brokers: broker is HOST:PORT, not {broker!r}")


@contextmanager
def _closed_on_failure(gateway: Gateway) -> Iterator[None]:
    try:
        yield
    except BaseException:
        gateway.close()
        raise


def _gateway(broker: str, token: str | None, timeout_s: float) -> Gateway:
    from penstock.client.http.gateway import Gateway

    return Gateway(broker, token, timeout_s)


def _cluster(broker: str, token: str | None, timeout_s: float) -> Cluster:
    from penstock.client.kafka.cluster import Cluster

    if token is not None:
        raise ValueError("a token is for a gateway: broker must begin with http:// or https://")
    return Cluster(broker, timeout_s)
