"""Writing very many small records, each acknowledged by all replicas in sync, with little work for each.

A report for each record would cost more than sending it. So librdkafka reports failures only, and what is not
reported when nothing is on its way any more was acknowledged. "Nothing on its way" is said of the whole
client: therefore one thread sends at a time, and sends what all others have waiting as well.

While a broker is away or a leader is elected librdkafka tries again by itself, without storing a record
twice, until the time limit is over.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from penstock.client.errors import (
    ClosedError,
    InsufficientReplicasError,
    PenstockError,
    TopicClusterDoesNotExistError,
)
from penstock.client.kafka.failures import UNKNOWN_TOPIC, as_error, error_line

if TYPE_CHECKING:
    from penstock.client.kafka.cluster import Cluster as Brokers

POLL_S: Final = 0.1
LINGER_MS: Final = 50
"""Longer than a call hands its records over: the flush that follows ends the wait."""
QUEUE_MESSAGES_MAX: Final = 200_000
QUEUE_KIB_MAX: Final = 64 * 1024
ANY_PARTITION: Final = -1

Record = tuple[str | bytes | None, bytes | None]
"""Key and value."""


class RecordWriter:
    """May be used by several threads."""

    def __init__(self, brokers: Brokers, *, exactly_once: bool = True) -> None:
        """Without `exactly_once`, a record whose acknowledgement is lost may be stored twice."""
        self._brokers = brokers
        self._exactly_once = exactly_once
        self._producer: Producer | None = None
        self._closed = False
        self._waiting: list[_Batch] = []
        self._lock = threading.Lock()
        """For `_waiting`; whoever holds it waits for nothing."""
        self._turn = threading.Lock()
        """Of the one that sends. Taken before `_lock`."""

    def write(self, records: Iterable[tuple[str, Sequence[Record]]]) -> None:
        """Stores the records of several topics; a PenstockError says how many were not acknowledged."""
        batch = _Batch(records)
        with self._lock:
            if self._closed:
                raise ClosedError("the client is closed")
            self._waiting.append(batch)
        with self._turn:
            if not batch.done:
                self._send()
        if batch.failed:
            raise self._failure(batch)

    def close(self) -> None:
        """Waits for what is being written."""
        with self._lock:
            self._closed = True
        with self._turn:
            if self._waiting:
                self._send()
            self._producer = None

    def _send(self) -> None:
        with self._lock:
            batches, self._waiting = self._waiting, []
        try:
            producer = self._open()
            for batch in batches:
                batch.produce(producer)
            while producer.flush(POLL_S):
                pass  # each record is acknowledged or fails within the time limit
        except BaseException:
            for batch in batches:
                batch.give_up()
            raise
        finally:
            for batch in batches:
                batch.done = True
        if any(batch.error is not None and batch.error.fatal() for batch in batches):
            self._producer = None  # librdkafka gives up on this client, not on the next

    def _open(self) -> Producer:
        if self._producer is None:
            self._producer = self._brokers.client(
                Producer,
                delivery_report_only_error=True,
                enable_idempotence=self._exactly_once,
                acks="all",
                compression_type="lz4",
                linger_ms=LINGER_MS,
                message_timeout_ms=max(1, int(self._brokers.timeout_s * 1000)),
                queue_buffering_max_messages=QUEUE_MESSAGES_MAX,
                queue_buffering_max_kbytes=QUEUE_KIB_MAX,
                retry_backoff_ms=20,
                retry_backoff_max_ms=500,
                allow_auto_create_topics=False,
                # The choice of partition for a car is that of Kafka's own clients.
                partitioner="murmur2_random",
            )
        return self._producer

    def _failure(self, batch: _Batch) -> PenstockError:
        error = batch.error
        assert error is not None
        what = (
            f"{batch.failed} of {batch.size} records were not acknowledged, the first for topic"
            f" {batch.topic!r} (whether they are stored is not known)"
        )
        if error.code() in UNKNOWN_TOPIC:
            return TopicClusterDoesNotExistError(f"{what}: {error_line(error)}")
        if error.code() != KafkaError._MSG_TIMED_OUT:
            return as_error(error, what)
        if self._lacks_replicas(batch.topic):
            return InsufficientReplicasError(
                f"{what}: too few replicas are in sync, for {self._brokers.timeout_s:g} s"
            )
        return self._brokers.silence(what, error)

    def _lacks_replicas(self, topic: str) -> bool:
        try:
            return self._brokers.lacks_replicas(topic)
        except KafkaException:
            return False  # nobody answers this either, and that is the answer


class _Batch:
    """What one call writes."""

    def __init__(self, records: Iterable[tuple[str, Sequence[Record]]]) -> None:
        self._records = list(records)
        self.size = sum(len(found) for _, found in self._records)
        self.failed = 0
        self.done = False
        self.error: KafkaError | None = None
        """The first."""
        self.topic = ""
        """That of the first error."""

    def produce(self, producer: Producer) -> None:
        left = self.size
        for topic, records in self._records:
            try:
                for key, value in records:
                    while True:
                        try:
                            producer.produce(topic, value, key, ANY_PARTITION, self._report)
                            break
                        except BufferError:
                            producer.poll(POLL_S)
                    left -= 1
            except KafkaException as error:
                self._fail(topic, error.args[0], left)  # the rest was not sent at all
                return

    def give_up(self) -> None:
        """Whoever sent it was interrupted."""
        self._fail(self._records[0][0], KafkaError(KafkaError._FAIL, "interrupted"), self.size - self.failed)

    def _report(self, error: KafkaError | None, message: Message) -> None:
        assert error is not None  # nothing else is asked for
        self._fail(message.topic() or "", error, 1)

    def _fail(self, topic: str, error: KafkaError, count: int) -> None:
        if self.error is None:
            self.error, self.topic = error, topic
        self.failed += count
