"""Reading the messages of topics from the beginning, one at a time."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from penstock.client.errors import ClosedError
from penstock.client.transport import open_consumer
from penstock.client.types import (
    DEFAULT_BROKER,
    DEFAULT_TIMEOUT_S,
    check_timeout,
    require_topic,
    single_id,
    to_text,
    topic_names,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from penstock.client.types import ConsumerTransport


class Consumer:
    """Reads each topic from its beginning. Topics that are missing are created with one partition.

    >>> from penstock import Consumer, Producer
    >>> with Producer(["news"], broker="127.0.0.1:9092") as producer:
    ...     for text in ("rain", "sun"):
    ...         _ = producer.send("news", text)
    >>> consumer = Consumer(["news"], broker="127.0.0.1:9092")
    >>> while consumer.has_next("news"):
    ...     print(consumer.get_next("news"), consumer.size("news"))
    rain 1
    sun 0

    `broker` and `token` are as for a Producer. A consumer has an `id`, and one that is made with it goes on
    where the other stopped, also after a crash: a message that was got is not got again.

    >>> gateway = "http://127.0.0.1:8080"
    >>> with Producer(["tasks"], broker=gateway) as producer:
    ...     for text in ("wash", "dry"):
    ...         _ = producer.send("tasks", text)
    >>> with Consumer(["tasks"], broker=gateway) as first:
    ...     first.get_next("tasks")
    'wash'
    >>> with Consumer(["tasks"], broker=gateway, id=first.id) as second:
    ...     second.get_next("tasks")
    'dry'

    Order is that of the partition; a topic with several is read from all of them, each in its order.

    May be used by several threads at once: each message goes to one of them.
    """

    def __init__(
        self,
        topics: str | Iterable[str],
        broker: str = DEFAULT_BROKER,
        id: int | Mapping[str, int] | None = None,  # noqa: A002 - what it is called everywhere else
        *,
        token: str | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        self._topics = topic_names(topics)
        self._transport = open_consumer(self._topics, broker, id, token, check_timeout(timeout_s))
        self._closing = weakref.finalize(self, self._transport.close)

    @property
    def topics(self) -> tuple[str, ...]:
        return self._topics

    @property
    def id(self) -> int:
        """The number by which this consumer is known, to go on as it later.

        Over HTTP a consumer of several topics has one for each: they are in `ids`, and this is a ValueError.

        Over the Kafka protocol, positions are kept in the cluster from the first use of `id` or `ids` on,
        those reached before included; a consumer whose id nobody asks for leaves nothing behind there.
        """
        return single_id(self.ids)

    @property
    def ids(self) -> dict[str, int]:
        """The id for each topic; as `Consumer(..., id=ids)` it makes one that goes on in all of them.

        >>> from penstock import Consumer
        >>> first = Consumer(["hats", "coats"], broker="http://127.0.0.1:8080")
        >>> second = Consumer(["hats", "coats"], broker="http://127.0.0.1:8080", id=first.ids)
        >>> second.ids == first.ids
        True
        """
        self._transport.remember()
        return dict(self._transport.ids)

    def has_next(self, topic: str) -> bool:
        """Whether the topic has a message that this consumer has not got yet, as of now.

        >>> from penstock import Consumer
        >>> Consumer("silence", "127.0.0.1:9092").has_next("silence")
        False
        """
        return self._use(topic).has_next(topic)

    def get_next(self, topic: str) -> str:
        """The next message; NoMessageError when nothing is left.

        >>> from penstock import Consumer
        >>> Consumer("silence", "127.0.0.1:9092").get_next("silence")
        Traceback (most recent call last):
        penstock.client.errors.NoMessageError: no message is left in topic 'silence'

        Bytes that are not UTF-8, from another client, become the lone surrogates of Python's
        `surrogateescape`, and `text.encode("utf-8", "surrogateescape")` is what was stored. A message without
        a value (a tombstone) is the empty text.
        """
        return to_text(self._use(topic).get_next(topic))

    def size(self, topic: str) -> int:
        """How many messages are left to be got, as of now.

        Messages are counted, not offsets: what a transaction aborted, its markers and what compaction removed
        do not count. So what is left is read once, when this is first asked; later calls read only what is
        new, except in a compacted topic. `has_next` costs no such thing.
        """
        return self._use(topic).size(topic)

    def close(self) -> None:
        self._closing()

    def _use(self, topic: str) -> ConsumerTransport:
        if not self._closing.alive:
            raise ClosedError("the consumer is closed")
        require_topic(topic, self._topics)
        return self._transport

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
