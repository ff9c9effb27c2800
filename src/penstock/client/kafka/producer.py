"""Sending over the Kafka protocol: idempotent, acknowledged by all replicas in sync.

librdkafka sends from threads of its own and keeps what became of each message until somebody polls. One
thread does, and hands each report to the future of its message. So any number of threads and coroutines send
through one client, and what is sent at the same time travels in one batch.

While a broker is away librdkafka tries again by itself, without storing a message twice, until the client's
time limit is over. It does so too when there are too few replicas, and then just says that time is over: only
then the cluster is asked which of the two it was.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from penstock.client.errors import ClosedError, InsufficientReplicasError, PenstockError
from penstock.client.kafka.failures import as_error
from penstock.client.types import Delivered

if TYPE_CHECKING:
    from penstock.client.kafka.cluster import Cluster

POLL_S: Final = 0.1
FULL_PAUSE_S: Final = 0.005
QUEUE_MESSAGES_MAX: Final = 100_000
QUEUE_KIB_MAX: Final = 64 * 1024
MESSAGE_BYTES_MAX: Final = 1_000_000_000
"""librdkafka's own limit; whether a message is too large is for the topic to say."""
VERDICT_S: Final = 1.0
"""For how long the answer to "are there enough replicas" is believed."""


class KafkaProducer:
    def __init__(self, cluster: Cluster, topics: tuple[str, ...]) -> None:
        cluster.ensure_topics(topics)
        self._cluster = cluster
        self._lock = threading.Lock()
        self._producer = self._new_client()
        self._verdicts: dict[str, tuple[float, bool]] = {}
        self._closed = threading.Event()
        self._poller = threading.Thread(target=self._poll, name="penstock-producer", daemon=True)
        self._poller.start()

    def send(self, topic: str, message: bytes, key: bytes | None) -> Delivered:
        deadline = time.monotonic() + self._cluster.timeout_s
        while True:
            try:
                return self.submit(topic, message, key).result()
            except BufferError as error:
                if time.monotonic() >= deadline:
                    raise self._cluster.silence(_what(topic)) from error
            time.sleep(FULL_PAUSE_S)

    def submit(self, topic: str, message: bytes, key: bytes | None) -> Future[Delivered]:
        future: Future[Delivered] = Future()
        # A future that somebody could cancel would be in the way of its report.
        future.set_running_or_notify_cancel()
        try:
            with self._lock:
                if self._closed.is_set():
                    raise ClosedError("the producer is closed")
                self._producer.produce(topic, message, key, on_delivery=partial(self._report, future, topic))
        except KafkaException as error:
            raise as_error(error, _what(topic)) from error
        return future

    def close(self) -> None:
        """Waits for what is on its way; each message succeeds or fails within the time limit."""
        with self._lock:
            self._closed.set()
        self._poller.join()

    def _new_client(self) -> Producer:
        return self._cluster.client(
            Producer,
            enable_idempotence=True,
            acks="all",
            linger_ms=0,
            message_timeout_ms=max(1, int(self._cluster.timeout_s * 1000)),
            message_max_bytes=MESSAGE_BYTES_MAX,
            queue_buffering_max_messages=QUEUE_MESSAGES_MAX,
            queue_buffering_max_kbytes=QUEUE_KIB_MAX,
            retry_backoff_ms=20,
            retry_backoff_max_ms=500,
        )

    def _poll(self) -> None:
        while not self._closed.is_set() or len(self._producer):
            self._producer.poll(POLL_S)

    def _report(self, future: Future[Delivered], topic: str, error: KafkaError | None, sent: Message) -> None:
        """Called by the poller."""
        if error is not None:
            future.set_exception(self._failure(topic, error))
            return
        partition, offset = sent.partition(), sent.offset()
        assert partition is not None
        assert offset is not None
        future.set_result(Delivered(topic, partition, offset))

    def _failure(self, topic: str, error: KafkaError) -> PenstockError:
        what = _what(topic)
        if error.code() != KafkaError._MSG_TIMED_OUT:
            return as_error(error, what)
        if self._lacks_replicas(topic):
            return InsufficientReplicasError(
                f"{what}: too few replicas are in sync, for {self._cluster.timeout_s:g} s"
            )
        return self._cluster.silence(what, error)

    def _lacks_replicas(self, topic: str) -> bool:
        asked_at, verdict = self._verdicts.get(topic, (float("-inf"), False))
        if time.monotonic() - asked_at > VERDICT_S:
            try:
                verdict = self._cluster.lacks_replicas(topic)
            except KafkaException:
                verdict = False  # nobody answers this either, and that is the answer
            self._verdicts[topic] = time.monotonic(), verdict
        return verdict


def _what(topic: str) -> str:
    return f"a message to topic {topic!r} was not acknowledged"
