"""Producing from asyncio through librdkafka.

librdkafka hands out delivery reports only when it is polled. A thread that polls would have to fight with the
event loop for the interpreter on every report, and each of them would wake the loop. So the loop polls by
itself: a timer runs while messages are on their way, takes all reports that are there in one call, and stops
when none is missing. Under load one tick completes hundreds of requests; an idle gateway does not tick.

librdkafka remembers for a while that a topic was not there. Whoever was told so looks once more, since the
topic may have been created meanwhile; what was refused is then sent again in its order.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from penstock.gateway.kafka.errors import KafkaClientError, KafkaUnavailableError, UnknownTopicError
from penstock.gateway.kafka.librdkafka import MISSING, error_in, error_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import Message

log = logging.getLogger(__name__)

TICK_S: Final = 0.001
SLOW_TICK_S: Final = 0.01
SLOW_AFTER_TICKS: Final = 50
"""So many ticks in a row without a report: the brokers are slow or gone, and it can wait."""
LINGER_MS: Final = 1
"""What arrives together is sent together."""
FLUSH_S_MAX: Final = 5.0


@dataclass(frozen=True, slots=True)
class Delivered:
    partition: int
    offset: int
    timestamp_ms: int


@dataclass(slots=True)
class Sent:
    """A message and who waits for it."""

    topic: str
    value: bytes | None
    key: bytes | None
    options: dict[str, Any]
    delivered: asyncio.Future[Delivered] = field(repr=False)
    looked_again: bool = False


class KafkaProducer:
    def __init__(self, config: dict[str, Any], *, queue_bytes_max: int, delivery_seconds_max: float) -> None:
        """`config` says where the brokers are, in librdkafka's words."""
        self._seconds_max = delivery_seconds_max
        self._config = config | {
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": LINGER_MS,
            "message.timeout.ms": int(delivery_seconds_max * 1000),
            "queue.buffering.max.kbytes": max(1, queue_bytes_max // 1024),
            "queue.buffering.max.messages": 1_000_000,
            # A topic that was just created may not have reached the broker that is asked.
            "topic.metadata.propagation.max.ms": 5_000,
            "allow.auto.create.topics": False,
            # The choice of partition for a key is that of Kafka's own clients.
            "partitioner": "murmur2_random",
            # The cluster's limit counts, not the client's.
            "message.max.bytes": 1_000_000_000,
        }
        self._producer: Producer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._in_flight = 0
        self._silent_ticks = 0
        self._ticking = False
        self._looking: dict[str, tuple[asyncio.Task[None], list[Sent]]] = {}
        """Messages by topic that was not there, while somebody looks once more."""

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._producer = Producer(self._config)

    async def close(self) -> None:
        """Waits a moment for what is on its way."""
        if self._producer is None:
            return
        producer, self._producer = self._producer, None
        for task, _ in self._looking.values():
            task.cancel()
        await asyncio.to_thread(producer.flush, FLUSH_S_MAX)
        producer.purge()
        producer.flush(0)

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> asyncio.Future[Delivered]:
        """Hands the message over at once; the future is done when all in-sync replicas have it.

        A future that is cancelled does not call the message back.
        """
        if self._loop is None:
            raise KafkaUnavailableError("the gateway has not started")
        options: dict[str, Any] = {}
        if partition is not None:
            options["partition"] = partition
        if headers:
            options["headers"] = list(headers)
        sent = Sent(topic, value, key, options, self._loop.create_future())
        self._hand_over(sent)
        return sent.delivered

    def _hand_over(self, sent: Sent) -> None:
        if self._producer is None or self._loop is None:
            raise KafkaUnavailableError("the gateway is stopping")

        def report(error: KafkaError | None, message: Message) -> None:
            self._reported(sent, error, message)

        try:
            self._producer.produce(sent.topic, sent.value, sent.key, on_delivery=report, **sent.options)
        except BufferError:
            raise KafkaUnavailableError("too many messages wait for the brokers") from None
        except KafkaException as error:
            first = error.args[0]
            if isinstance(first, KafkaError) and first.code() in MISSING and not sent.looked_again:
                self._look_again(sent)
                return
            self._replace_if_fatal(first)
            raise error_in(error, sent.topic) from error
        self._in_flight += 1
        if not self._ticking:
            self._ticking = True
            self._loop.call_later(TICK_S, self._tick)

    def _reported(self, sent: Sent, error: KafkaError | None, message: Message) -> None:
        self._in_flight -= 1
        self._silent_ticks = 0
        if sent.delivered.done():
            return
        if error is None:
            sent.delivered.set_result(
                Delivered(message.partition() or 0, message.offset() or 0, message.timestamp()[1])
            )
        elif error.code() in MISSING and not sent.looked_again and self._producer is not None:
            self._look_again(sent)
        else:
            self._replace_if_fatal(error)
            sent.delivered.set_exception(error_of(error, sent.topic))

    def _tick(self) -> None:
        if self._producer is None or self._loop is None:
            return
        self._silent_ticks += 1
        self._producer.poll(0)
        if self._in_flight == 0:
            self._ticking = False
            return
        pause = TICK_S if self._silent_ticks < SLOW_AFTER_TICKS else SLOW_TICK_S
        self._loop.call_later(pause, self._tick)

    def _look_again(self, sent: Sent) -> None:
        sent.looked_again = True
        if sent.topic not in self._looking:
            self._looking[sent.topic] = asyncio.create_task(self._look(sent.topic)), []
        self._looking[sent.topic][1].append(sent)

    async def _look(self, topic: str) -> None:
        problem: Exception | None = None
        try:
            assert self._producer is not None
            found = await asyncio.to_thread(self._producer.list_topics, topic, self._seconds_max)
            if found.topics[topic].error is not None:
                problem = UnknownTopicError(topic)
        except KafkaException as error:
            problem = error_in(error, topic)
        _, waiting = self._looking.pop(topic)
        for sent in waiting:
            if problem is None:
                try:
                    self._hand_over(sent)
                except KafkaClientError as error:
                    problem = error
            if problem is not None and not sent.delivered.done():
                sent.delivered.set_exception(problem)

    def _replace_if_fatal(self, error: object) -> None:
        """A producer that lost its place in a partition's sequence never sends again; a new one does."""
        if self._producer is None or not isinstance(error, KafkaError) or not error.fatal():
            return
        log.error("the producer is replaced: %s", error)
        old, self._producer = self._producer, Producer(self._config)
        old.purge()
        assert self._loop is not None
        self._loop.call_soon(old.poll, 0)  # not from within its own report
