"""Who reads from the replica in its own rack, and can tell from whom it reads."""

from __future__ import annotations

import json
import threading
from typing import Any

from confluent_kafka import Consumer, TopicPartition


class NearbyConsumer:
    """A consumer in a rack, which also tells from whom it fetches."""

    def __init__(self, bootstrap: str, topic: str, rack: str) -> None:
        self.statistics: dict[str, Any] = {}
        self.values: list[bytes] = []
        self._done = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "nearby",
                "client.rack": rack,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
                "statistics.interval.ms": 100,
                "stats_cb": self._told,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, 0)])

    def _told(self, text: str) -> None:
        self.statistics = json.loads(text)

    def poll(self) -> None:
        for message in self._consumer.consume(100, 0.05):
            assert message.error() is None, message.error()
            value = message.value()
            assert isinstance(value, bytes)
            self.values.append(value)

    def fetches(self) -> dict[int, int]:
        """Of each broker, how often it was fetched from so far."""
        self.poll()
        return {
            broker["nodeid"]: broker["req"]["Fetch"]
            for broker in self.statistics.get("brokers", {}).values()
            if broker["nodeid"] > 0 and broker.get("req", {}).get("Fetch")
        }

    def close(self) -> None:
        self._consumer.close()
