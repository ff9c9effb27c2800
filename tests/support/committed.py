"""What a reader of committed data sees of a topic."""

from __future__ import annotations

import time
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, TopicPartition

READ_S_MAX = 60.0


def read_committed(bootstrap: str, topic: str, partitions: int = 1) -> list[bytes]:
    """The values of all partitions, one after the other, up to the first open transaction of each."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "nobody",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "log_level": 0,
    }
    found: dict[int, list[bytes]] = {partition: [] for partition in range(partitions)}
    at_end: set[int] = set()
    deadline = time.monotonic() + READ_S_MAX
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        while len(at_end) < partitions:
            assert time.monotonic() < deadline, f"topic {topic}: only {at_end} of {partitions} have an end"
            for message in consumer.consume(500, timeout=0.2):
                error, partition = message.error(), message.partition()
                assert partition is not None
                if error is None:
                    found[partition].append(message.value() or b"")
                elif error.code() == KafkaError._PARTITION_EOF:
                    at_end.add(partition)
                else:
                    assert error.retriable() or error.code() == KafkaError._TRANSPORT, error
    return [value for partition in sorted(found) for value in found[partition]]
