"""kafka-python's admin client, for what confluent-kafka does not offer: moving partitions."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

with warnings.catch_warnings():
    # It reads its schemas with a function that Python deprecated; warnings are errors here.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, TopicPartition


@contextmanager
def kafka_python_admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
    try:
        yield client
    finally:
        client.close()


def reassign(
    bootstrap: str, topic: str, targets: Mapping[int, Sequence[int]], timeout_s: float = 60.0
) -> None:
    """Partitions go to these brokers; returns when they are there."""
    with kafka_python_admin(bootstrap) as client:
        wanted = {TopicPartition(topic, index): list(replicas) for index, replicas in targets.items()}
        answers = client.alter_partition_reassignments(wanted)
        assert answers == dict.fromkeys(wanted), answers
        wait_until(lambda: not client.list_partition_reassignments(), "the moves", timeout_s=timeout_s)
