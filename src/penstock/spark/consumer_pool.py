"""Consumers that stay open between the tasks of a worker.

A new consumer asks for metadata, connects to every leader and starts its threads: some 50 ms in which nothing
is read, and with a micro-batch of a few thousand messages that is most of a task. Spark uses its Python
workers again, task after task; what a task can leave to the next one is in the memory of the process, and
nowhere else. So this module has the only state of the data source that outlives a task, and it holds nothing
but connections: a consumer in the pool has no partitions, and whoever takes it assigns its own.

A consumer is in the pool or in use by one reader, never both. One that has seen a failure is closed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from penstock.client.kafka.skipping_consumer import SkippingConsumer
from penstock.spark.cluster import new_client

if TYPE_CHECKING:
    from confluent_kafka import Consumer

IDLE_MAX: Final = 2
"""A stream and one more, as a batch that is read beside it."""


class ConsumerPool:
    def __init__(self) -> None:
        self._process = os.getpid()
        self._idle: dict[tuple[tuple[str, str], ...], Consumer] = {}

    @contextmanager
    def consumer(self, settings: Mapping[str, Any]) -> Iterator[Consumer]:
        """A consumer with these settings and without partitions."""
        key = tuple(sorted((name, repr(value)) for name, value in settings.items()))
        consumer = self._take(key)
        if consumer is None:
            consumer = new_client(SkippingConsumer, dict(settings))
        try:
            yield consumer
            consumer.unassign()
        except BaseException:
            consumer.close()
            raise
        self._give_back(key, consumer)

    def _take(self, key: tuple[tuple[str, str], ...]) -> Consumer | None:
        if self._process != os.getpid():  # after a fork the threads of these are not there
            self._process, self._idle = os.getpid(), {}
        return self._idle.pop(key, None)

    def _give_back(self, key: tuple[tuple[str, str], ...], consumer: Consumer) -> None:
        replaced = self._idle.pop(key, None)
        if replaced is not None:
            replaced.close()
        self._idle[key] = consumer
        while len(self._idle) > IDLE_MAX:
            self._idle.pop(next(iter(self._idle))).close()


POOL: Final = ConsumerPool()
"""Of this process."""
