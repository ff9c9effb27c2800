"""Sending messages, one call for each, done when it is acknowledged."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from penstock.client.errors import ClosedError
from penstock.client.transport import open_producer
from penstock.client.types import (
    DEFAULT_BROKER,
    DEFAULT_TIMEOUT_S,
    Delivered,
    check_timeout,
    require_topic,
    to_bytes,
    topic_names,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType


class Producer:
    """Sends messages to topics, which are created with one partition if they are missing.

    >>> from penstock import Producer
    >>> with Producer(["orders"], broker="127.0.0.1:9092") as producer:
    ...     producer.send("orders", "two apples")
    ...     producer.send("orders", "a pear", key="fruit")
    Delivered(topic='orders', partition=0, offset=0)
    Delivered(topic='orders', partition=0, offset=1)

    `broker` is one or several addresses of a Kafka cluster, with commas in between, or the address of a
    gateway, as `http://127.0.0.1:8080`; then `token` is the token that it wants, if any.

    May be used by several threads at once. Without `close`, it is closed when it is no longer used.
    """

    def __init__(
        self,
        topics: str | Iterable[str],
        broker: str = DEFAULT_BROKER,
        *,
        token: str | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        self._topics = topic_names(topics)
        self._transport = open_producer(self._topics, broker, token, check_timeout(timeout_s))
        self._closing = weakref.finalize(self, self._transport.close)

    @property
    def topics(self) -> tuple[str, ...]:
        return self._topics

    def send(self, topic: str, message: str | bytes, key: str | bytes | None = None) -> Delivered:
        """Stores one message, and returns where it is once every replica in sync has it.

        A broker or a gateway that is away is waited for, up to `timeout_s` seconds, and a message whose
        acknowledgement was lost on the way is not stored twice. A `str` is stored as UTF-8.

        >>> from penstock import Producer
        >>> producer = Producer("visits", broker="http://127.0.0.1:8080")
        >>> producer.send("visits", "home").offset
        0
        >>> producer.send("departures", "home")
        Traceback (most recent call last):
        penstock.client.errors.TopicNotFoundError: 'departures' is not one of the topics: visits

        Messages with the same key go to the same partition. The topic-queue endpoints of a gateway have no
        keys, and over HTTP a message must be UTF-8: InvalidMessageError says so.
        """
        if not self._closing.alive:
            raise ClosedError("the producer is closed")
        require_topic(topic, self._topics)
        return self._transport.send(topic, to_bytes(message), None if key is None else to_bytes(key))

    def close(self) -> None:
        """Ends connections and threads. Every message that `send` returned for is stored already."""
        self._closing()

    def __enter__(self) -> Producer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
