"""Transactional clients for tests: what one writes, and what readers of each kind find of it."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT_S = 20.0


def transactional(bootstrap: str, transactional_id: str, **settings: object) -> Producer:
    """A producer that owns the id and is ready to begin. Names with underscores stand for those with dots."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 0, **named}
    )
    producer.init_transactions(TIMEOUT_S)
    return producer


def send(producer: Producer, topic: str, *values: bytes, partition: int = 0) -> None:
    """Returns when all are acknowledged."""
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(TIMEOUT_S) == 0


def read(
    bootstrap: str, topic: str, *, isolation: str = "read_committed", partition: int = 0
) -> list[bytes | None]:
    """What a reader of that kind finds in a partition, from its start to where it has to stop."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "nobody",
        "isolation.level": isolation,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 20,
        "log_level": 0,
    }
    found: list[bytes | None] = []
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        for message in polled(consumer):
            error = message.error()
            if error is None:
                found.append(message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                break
            else:
                raise AssertionError(error)
    return found


def polled(consumer: Consumer) -> Iterator[Message]:
    """Message after message, for as long as one comes in time."""
    while True:
        deadline = time.monotonic() + TIMEOUT_S
        while (message := consumer.poll(0.2)) is None:
            assert time.monotonic() < deadline, "nothing more came"
        yield message
