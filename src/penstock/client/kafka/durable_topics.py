"""Topics for publishers and subscribers: what not everybody has got is kept, however long that takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException

from penstock.client.kafka.failures import error_code

if TYPE_CHECKING:
    from penstock.client.kafka.cluster import Cluster

UNTIL_CONSUMED: Final = {"retention": "consumed"}
FOR_EVER: Final = {"retention.ms": "-1"}
"""For a cluster that does not know who has consumed what, as Apache Kafka."""


def ensure_topic(cluster: Cluster, topic: str) -> list[int]:
    """The partitions of the topic, which is created if it is missing. Raises KafkaException."""
    found = partitions(cluster, topic)
    if found is not None:
        return found
    try:
        cluster.create(topic, UNTIL_CONSUMED)
    except KafkaException as error:
        if error_code(error) != KafkaError.INVALID_CONFIG:
            raise
        cluster.create(topic, FOR_EVER)
    found = partitions(cluster, topic)
    if found is None:
        # The broker that was asked has not heard of it yet.
        raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    return found


def partitions(cluster: Cluster, topic: str) -> list[int] | None:
    """None if there is no such topic."""
    found = cluster.metadata().topics.get(topic)
    if found is None:
        return None
    if found.error is not None:
        raise KafkaException(found.error)
    return sorted(found.partitions)
