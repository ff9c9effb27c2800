"""The questions of a consumer, and its commits, on a client of librdkafka that reads nothing itself."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from penstock.client.kafka.cluster import REQUEST_S_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.client.kafka.cluster import Cluster

Partition = tuple[str, int]


class Offsets(NamedTuple):
    """What of a partition can be read: from `start`, up to and without `end`."""

    start: int
    end: int


class Control:
    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster = cluster
        self._group = group
        self._opened: Consumer | None = None
        self._lock = threading.Lock()

    def partitions(self, topic: str) -> list[int]:
        """The partitions that the topic has now."""

        def request() -> list[int]:
            found = self._client().list_topics(topic, timeout=REQUEST_S_MAX).topics[topic]
            if found.error is not None:
                raise KafkaException(found.error)
            return sorted(found.partitions)

        return self._cluster.ask(request, f"topic {topic!r} cannot be read")

    def offsets(self, topic: str, index: int) -> Offsets:
        """With transactions, the end is where the first of those begins that are still open."""

        def request() -> Offsets:
            found = self._client().get_watermark_offsets(TopicPartition(topic, index), timeout=REQUEST_S_MAX)
            if found is None:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            return Offsets(*found)

        return self._cluster.ask(request, f"the end of partition {index} of topic {topic!r} is not known")

    def committed(self, topic: str, indexes: Iterable[int]) -> dict[int, int]:
        """The committed offsets of those partitions that have one."""
        wanted = [TopicPartition(topic, index) for index in indexes]

        def request() -> dict[int, int]:
            found = {}
            for answer in self._client().committed(wanted, timeout=REQUEST_S_MAX):
                if answer.error is not None:
                    raise KafkaException(answer.error)
                if answer.offset >= 0:
                    found[answer.partition] = answer.offset
            return found

        return self._cluster.ask(request, f"the positions of group {self._group!r} are not known")

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        wanted = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]

        def request() -> None:
            for answer in self._client().commit(offsets=wanted, asynchronous=False) or []:
                if answer.error is not None:
                    raise KafkaException(answer.error)

        self._cluster.ask(request, f"the positions of group {self._group!r} cannot be kept")

    def close(self) -> None:
        """Until it is used again."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def _client(self) -> Consumer:
        with self._lock:
            if self._opened is None:
                self._opened = self._cluster.reader(self._group, allow_auto_create_topics=False)
            return self._opened
