"""kafka-python, which is not as tidy as the tests are: and its admin client, which moves partitions."""

from __future__ import annotations

import gc
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest

from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

with warnings.catch_warnings():
    # It reads its schemas with a function that Python deprecated; warnings are errors here.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, TopicPartition

DROPS_SOCKETS: Final = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
"""A connection that it is still making, or still writing to, when it is closed, is left to the collector."""


@contextmanager
def kafka_python_admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
    try:
        yield client
    finally:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "unclosed <socket", ResourceWarning)
            client.close()
            gc.collect()


def reassign(
    bootstrap: str, topic: str, targets: Mapping[int, Sequence[int]], timeout_s: float = 60.0
) -> None:
    """Partitions go to these brokers; returns when they are there."""
    with kafka_python_admin(bootstrap) as client:
        wanted = {TopicPartition(topic, index): list(replicas) for index, replicas in targets.items()}
        answers = client.alter_partition_reassignments(wanted)
        assert answers == dict.fromkeys(wanted), answers
        wait_until(lambda: not client.list_partition_reassignments(), "the moves", timeout_s=timeout_s)
