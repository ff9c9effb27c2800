"""A bounded amount of messages through librdkafka: written, then read. The benchmark is made of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from penstock.cli.kafka import BATCH_MESSAGES_MAX, POLL_SECONDS, client_config, error_line
from penstock.cli.output import CommandFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from confluent_kafka.admin import AdminClient

STALL_SECONDS_MAX = 20.0
QUEUE_KIB = 64 * 1024

Headers = list[tuple[str, str | bytes | None]]


@dataclass(frozen=True, slots=True)
class Rate:
    messages: int
    size_bytes: int
    seconds: float

    @property
    def messages_per_second(self) -> float:
        return self.messages / self.seconds

    @property
    def megabytes_per_second(self) -> float:
        return self.size_bytes / self.seconds / 1e6


class Writer:
    """Sends messages with `acks=all` and counts the acknowledgements."""

    def __init__(self, bootstrap: str, **settings: Any) -> None:
        config = client_config(bootstrap, acks="all", linger_ms=5, queue_buffering_max_kbytes=QUEUE_KIB)
        self._producer = Producer(config | settings)
        self._size_bytes = 0
        self.acknowledged = 0

    def write(
        self, topic: str, messages: Iterable[tuple[bytes | None, bytes, Headers]], notice: Callable[[], None]
    ) -> Rate:
        """Sends all messages and waits for their acknowledgements; `notice` is called now and then."""
        start = time.perf_counter()
        self._size_bytes = self.acknowledged = sent = 0
        for key, value, headers in messages:
            self._send(topic, key, value, headers)
            sent += 1
            if sent % BATCH_MESSAGES_MAX == 0:
                self._producer.poll(0)
                notice()
        progress, deadline = 0, time.monotonic() + STALL_SECONDS_MAX
        while self._producer.flush(POLL_SECONDS):
            notice()
            if self.acknowledged > progress:
                progress, deadline = self.acknowledged, time.monotonic() + STALL_SECONDS_MAX
            elif time.monotonic() > deadline:
                raise CommandFailed(f"only {self.acknowledged:,} of {sent:,} messages were acknowledged")
        notice()
        return Rate(sent, self._size_bytes, time.perf_counter() - start)

    def _send(self, topic: str, key: bytes | None, value: bytes, headers: Headers) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key, headers=headers, on_delivery=self._delivered)
                return
            except BufferError:
                self._producer.poll(POLL_SECONDS)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise CommandFailed(f"a message was not delivered: {error_line(error)}")
        self.acknowledged += 1
        self._size_bytes += len(message.value() or b"")


def read_all(bootstrap: str, topic: str, partitions: int, number: int) -> Rate:
    """Reads `number` messages from the beginning, without a group."""
    config = client_config(bootstrap, group_id="penstock-without-group", enable_auto_commit=False)
    consumer = Consumer(config)
    size_bytes = count = 0
    try:
        start = time.perf_counter()
        deadline = time.monotonic() + STALL_SECONDS_MAX
        consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(partitions)])
        while count < number:
            batch = consumer.consume(min(BATCH_MESSAGES_MAX, number - count), timeout=POLL_SECONDS)
            for message in batch:
                require_no_error(message)
                size_bytes += len(message.value() or b"")
            count += len(batch)
            if batch:
                deadline = time.monotonic() + STALL_SECONDS_MAX
            elif time.monotonic() > deadline:
                raise CommandFailed(f"only {count:,} of {number:,} messages arrived")
        return Rate(count, size_bytes, time.perf_counter() - start)
    finally:
        consumer.close()


def require_no_error(message: Message) -> None:
    error = message.error()
    if error is not None and not error.retriable():
        raise CommandFailed(f"reading failed: {error_line(error)}")


def wait_for_topic(admin: AdminClient, topic: str, partitions: int) -> None:
    """Until every partition of a topic just created has a leader that clients are told of."""
    deadline = time.monotonic() + STALL_SECONDS_MAX
    while True:
        found = admin.list_topics(timeout=STALL_SECONDS_MAX).topics.get(topic)
        if found and sum(each.leader >= 0 for each in found.partitions.values()) == partitions:
            return
        if time.monotonic() > deadline:
            raise CommandFailed(f"topic {topic!r} did not get its leaders")
        time.sleep(POLL_SECONDS)
