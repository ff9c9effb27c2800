"""Fetching the committed messages of partitions, each from a position of the subscriber's own.

Nothing here moves a position. librdkafka fetches ahead; what it has is taken into an inbox, and when that has
enough, librdkafka stops by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka import Message as KafkaMessage

from penstock.client.kafka.cluster import REQUEST_S_MAX
from penstock.client.kafka.failures import UNKNOWN_TOPIC, as_error, passes
from penstock.client.pubsub.inbox import Inbox, Lost, Skipped
from penstock.client.pubsub.messages import Message, Partition, origin_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.client.kafka.cluster import Cluster

INBOX_MAX: Final = 1_000
QUEUE_MESSAGES: Final = 1_000
"""librdkafka fetches more once it has fewer of a partition. With more, small topics wait for big ones."""
QUEUE_KIB_MAX: Final = 16 * 1024
FETCH_WAIT_MS: Final = 100
"""An end is told when so long nothing has come after it."""
BEYOND: Final = frozenset(
    {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION}
)


class SubscriptionReader:
    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster = cluster
        self._next: dict[Partition, int] = {}
        """What comes after what is in the inbox."""
        self._seen_end: dict[Partition, int] = {}
        """Where an end was, when everything before it was fetched."""
        self._beyond: set[Partition] = set()
        """Whose next offset is not in the log."""
        self.inbox: Inbox[Message | Lost | Skipped] = Inbox()
        self._skipped: list[tuple[Partition, int]] = []
        """Where partitions go on behind poison; for the inbox, when what came before is in it."""
        self._consumer = cluster.reader(
            group,
            on_skip=lambda partition, offset: self._skipped.append((partition, offset)),
            allow_auto_create_topics=False,
            queued_min_messages=QUEUE_MESSAGES,
            queued_max_messages_kbytes=QUEUE_KIB_MAX,
            fetch_wait_max_ms=FETCH_WAIT_MS,
            fetch_error_backoff_ms=50,
            topic_metadata_refresh_fast_interval_ms=50,
        )

    @property
    def partitions(self) -> set[Partition]:
        return set(self._next)

    def has_reached(self, ends: Mapping[Partition, int]) -> bool:
        """Whether everything before the ends was fetched."""
        return all(
            max(self._next[partition], self._seen_end.get(partition, 0)) >= end
            for partition, end in ends.items()
            if partition in self._next
        )

    def start(self, positions: Mapping[Partition, int]) -> None:
        """Reads those partitions too, or from another offset on."""
        self.stop(positions)
        self._next.update(positions)
        self._consumer.incremental_assign(
            [TopicPartition(*partition, offset) for partition, offset in positions.items()]
        )

    def stop(self, partitions: Iterable[Partition]) -> None:
        """Reads them no more; what was fetched of them stays in the inbox."""
        known = [each for each in partitions if each in self._next]
        if known:
            self._consumer.incremental_unassign([TopicPartition(*each) for each in known])
        for each in known:
            del self._next[each]
            self._seen_end.pop(each, None)
            self._beyond.discard(each)

    def fetch(self, wait_s: float) -> None:
        """Takes what librdkafka has into the inbox, and waits for something if it has nothing."""
        for partition in list(self._beyond):
            self._catch_up(partition)
        room = INBOX_MAX - len(self.inbox)
        if room <= 0:
            return
        first = self._consumer.poll(wait_s)
        if first is not None:
            for each in [first, *self._consumer.consume(room, timeout=0)]:
                self._take(each)
        for partition, offset in self._skipped:
            if self._next.get(partition, offset) < offset:  # else it was stopped, or has got further already
                self.inbox.add(partition, Skipped(offset))
                self._next[partition] = offset
        self._skipped.clear()

    def close(self) -> None:
        self._consumer.close()

    def _take(self, fetched: KafkaMessage) -> None:
        error = fetched.error()
        topic, index, offset = fetched.topic(), fetched.partition(), fetched.offset()
        partition = (topic or "", -1 if index is None else index)
        if error is None:
            assert offset is not None
            if offset >= self._next.get(partition, offset + 1):  # else it was stopped, or started elsewhere
                self.inbox.add(partition, _message(fetched, partition, offset))
                self._next[partition] = offset + 1
        elif error.code() == KafkaError._PARTITION_EOF:
            if partition in self._next and offset is not None:
                self._seen_end[partition] = offset
        elif error.code() in BEYOND:
            if partition in self._next:
                self._beyond.add(partition)
        elif not passes(error) and error.code() not in UNKNOWN_TOPIC:
            raise as_error(error, f"topic {topic!r} cannot be read")

    def _catch_up(self, partition: Partition) -> None:
        """The next offset was not in the log. What it has now decides where it goes on."""
        wanted = TopicPartition(*partition)
        position = self._next[partition]
        try:
            found = self._consumer.get_watermark_offsets(wanted, timeout=REQUEST_S_MAX)
        except KafkaException as error:
            if not passes(error):
                raise as_error(error, f"topic {partition[0]!r} cannot be read") from error
            return  # it stays beyond, and the next call asks again
        start, end = found
        place = min(max(position, start), end)
        if place != position:
            self.inbox.add(partition, Lost(position, place))
        self.start({partition: place})


def _message(fetched: KafkaMessage, partition: Partition, offset: int) -> Message:
    kind, timestamp = fetched.timestamp()
    headers = fetched.headers()
    publisher, seq = origin_of(headers if isinstance(headers, list) else None)
    key = fetched.key()
    return Message(
        *partition,
        offset,
        fetched.value() or b"",
        key,
        None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp,
        publisher,
        seq,
    )
