"""Putting messages so that each is stored once, whatever crashes."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.client.errors import ClosedError
from penstock.client.pubsub.messages import Put, check_id, check_topic
from penstock.client.pubsub.numbering import check_seq
from penstock.client.transport import open_publisher
from penstock.client.types import DEFAULT_BROKER, DEFAULT_TIMEOUT_S, check_timeout, to_bytes

if TYPE_CHECKING:
    from types import TracebackType

    from penstock.client.kafka.publisher import KafkaPublisher


class Publisher:
    """Puts messages under an id that survives it. Each is stored once, also after a crash on either side.

    >>> from penstock import Publisher
    >>> with Publisher("p1", broker="127.0.0.1:9092") as publisher:
    ...     publisher.put("weather", "rain")
    ...     publisher.put("weather", "sun").seq
    Put(seq=1, offset=0, partition=0)
    2

    Messages have numbers, from 1 for each publisher and topic, which the cluster keeps. A program that was
    killed in the middle of a put does not know whether its message is stored. It puts it again with its
    number, and no message is stored twice:

    >>> with Publisher("p1", broker="127.0.0.1:9092") as publisher:
    ...     publisher.put("weather", "sun", seq=2).seq
    ...     publisher.put("weather", "snow", seq=3).seq
    ...     publisher.last_seq("weather")
    2
    3
    3

    A number that leaves some out is refused, with the one that is next:

    >>> publisher = Publisher("p1", broker="127.0.0.1:9092")
    >>> publisher.put("weather", "hail", seq=9)
    Traceback (most recent call last):
    penstock.client.errors.SequenceGapError: number 9 in topic 'weather' leaves some out: expected 4

    Of two publishers with the same id, the one that was made first can put no more (PublisherFencedError).

    Topics that are missing are created with one partition. In a topic with several, a publisher keeps to one
    of them, so that its order holds. May be used by several threads at once.
    """

    def __init__(
        self,
        id: str,  # noqa: A002 - what it is called everywhere else
        broker: str = DEFAULT_BROKER,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        self._id = check_id(id, "publisher")
        self._transport = open_publisher(self._id, broker, check_timeout(timeout_s))
        self._closing = weakref.finalize(self, self._transport.close)

    @property
    def id(self) -> str:
        return self._id

    def put(
        self, topic: str, message: str | bytes, seq: int | None = None, *, key: str | bytes | None = None
    ) -> Put:
        """Stores one message, and returns its number and place once it can no longer be lost.

        Without `seq` it is a new message. With it, a message of this number that is stored already is not
        stored again. Brokers that are away are waited for, up to `timeout_s` seconds; then it is an
        OutcomeUnknownError, which has the number under which to put the same message again, or another error,
        which means that it is not stored.
        """
        (put,) = self._put(topic, [message], seq, key)
        return put

    def put_many(self, topic: str, messages: Iterable[str | bytes], seq: int | None = None) -> list[Put]:
        """Stores all of them together or none, with one number each; `seq` is that of the first."""
        return self._put(topic, list(messages), seq, None)

    def last_seq(self, topic: str) -> int:
        """The number of this publisher's last message in the topic; 0 if it has none."""
        return self._use().last_seq(check_topic(topic))

    def close(self) -> None:
        """Ends connections and threads. Every message that `put` returned for is stored already."""
        self._closing()

    def _put(
        self, topic: str, messages: list[str | bytes], seq: int | None, key: str | bytes | None
    ) -> list[Put]:
        check_seq(seq)
        values = [to_bytes(message) for message in messages]
        return self._use().put(check_topic(topic), values, seq, None if key is None else to_bytes(key))

    def _use(self) -> KafkaPublisher:
        if not self._closing.alive:
            raise ClosedError("the publisher is closed")
        return self._transport

    def __enter__(self) -> Publisher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
