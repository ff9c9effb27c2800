"""Getting every message of topics once, in order, through crashes."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from penstock.client.errors import ClosedError
from penstock.client.pubsub.messages import Message, Outgoing, Partition, check_id, check_topic
from penstock.client.transport import open_subscriber
from penstock.client.types import DEFAULT_BROKER, DEFAULT_TIMEOUT_S, check_timeout, to_bytes

if TYPE_CHECKING:
    from types import TracebackType

    from penstock.client.kafka.subscriber import KafkaSubscriber, KafkaTransaction

WAIT_S_MAX: Final = 10 * 365 * 86_400.0


class SubscriberTransaction:
    """What `Subscriber.transaction` gives: gets and puts of one transaction."""

    def __init__(self, transaction: KafkaTransaction) -> None:
        self._transaction = transaction

    def get(self, timeout: float | None = None) -> Message | None:
        """As `Subscriber.get`; its position moves when the transaction ends."""
        return self._transaction.get(check_wait(timeout))

    def put(self, topic: str, message: str | bytes, key: str | bytes | None = None) -> None:
        """Stores a message when the transaction ends. A topic that is missing is created."""
        value, key_bytes = to_bytes(message), None if key is None else to_bytes(key)
        self._transaction.put(Outgoing(check_topic(topic), value, key_bytes))


class Subscriber:
    """Gets each message that is put into its topics after it subscribed, once, in the order of the topic.

    >>> from penstock import Publisher, Subscriber
    >>> publisher = Publisher("p1", broker="127.0.0.1:9092")
    >>> _ = publisher.put("chess", "e4")
    >>> with Subscriber("s1", broker="127.0.0.1:9092") as subscriber:
    ...     subscriber.subscribe("chess")
    ...     _ = publisher.put_many("chess", ["e5", "Nf3"])
    ...     print(subscriber.get(timeout=5))
    e5

    Subscriptions and positions are kept by the cluster under the id of the subscriber, also while it is away:

    >>> with Subscriber("s1", broker="127.0.0.1:9092") as subscriber:
    ...     print(subscriber.get(timeout=5))
    ...     print(subscriber.get(timeout=0))
    Nf3
    None

    The position is durable before `get` returns, so a message that was got is never got again. A program that
    wants to be exact also when it is killed right after that stores `message.position` together with what it
    does, and gives what it has stored as `positions`, which are then where the subscriber goes on:

    >>> stored = {}
    >>> with Subscriber("s1", broker="127.0.0.1:9092", positions=stored) as subscriber:
    ...     _ = publisher.put("chess", "Nc6")
    ...     message = subscriber.get(timeout=5)
    ...     stored[message.topic, message.partition] = message.position
    >>> stored
    {('chess', 0): 6}

    Of two subscribers with the same id, the one that was made first can get no more (SubscriberFencedError).
    May be used by several threads at once: each message goes to one of them.
    """

    def __init__(
        self,
        id: str,  # noqa: A002 - what it is called everywhere else
        broker: str = DEFAULT_BROKER,
        *,
        positions: Mapping[Partition, int] | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        self._id = check_id(id, "subscriber")
        own = check_positions(positions)
        self._transport = open_subscriber(self._id, broker, own, check_timeout(timeout_s))
        self._closing = weakref.finalize(self, self._transport.close)

    @property
    def id(self) -> str:
        return self._id

    @property
    def topics(self) -> tuple[str, ...]:
        """What it is subscribed to."""
        return self._use().topics

    def subscribe(self, topic: str) -> None:
        """From now on, messages of the topic come to this subscriber, whether it runs or not.

        A topic that is missing is created with one partition. One that it is subscribed to already stays as
        it is.
        """
        self._use().subscribe(check_topic(topic))

    def unsubscribe(self, topic: str) -> None:
        """Ends the subscription. What was not got by now will not come."""
        self._use().unsubscribe(check_topic(topic))

    def get(self, timeout: float | None = None) -> Message | None:
        """The next message, or None if none came for `timeout` seconds; without it, waits for one.

        None means that nothing was left. Brokers that are away are waited for, up to `timeout_s` seconds;
        then it is a DisconnectedServerError, and the message that could not be got comes with the next call.

        The position after the message is durable when `get` returns. With `positions` it is that of the
        message before: whoever asks for the next one has stored it.
        """
        found = self._use().get(1, check_wait(timeout))
        return found[0] if found else None

    def get_many(self, n: int, timeout: float | None = None) -> list[Message]:
        """As `get`, and up to `n` messages if more are there, for which the position is written once."""
        return self._use().get(check_number(n), check_wait(timeout))

    @contextmanager
    def receive(self, timeout: float | None = None) -> Iterator[Message | None]:
        """The next message for the length of a block: at least once.

        >>> from penstock import Publisher, Subscriber
        >>> subscriber = Subscriber("s2", broker="127.0.0.1:9092")
        >>> subscriber.subscribe("bells")
        >>> _ = Publisher("p2", broker="127.0.0.1:9092").put("bells", "ding")
        >>> with subscriber.receive(timeout=5) as message:
        ...     print(message)
        ding

        The position is written when the block ends. When it ends with an exception, or is killed, the same
        message comes again.
        """
        with self.receive_many(1, timeout) as messages:
            yield messages[0] if messages else None

    @contextmanager
    def receive_many(self, n: int, timeout: float | None = None) -> Iterator[list[Message]]:
        """As `receive` for up to `n` messages, which all come again if the block does not end well."""
        with self._use().receive(check_number(n), check_wait(timeout)) as messages:
            yield messages

    @contextmanager
    def transaction(self) -> Iterator[SubscriberTransaction]:
        """Gets and puts that happen together or not at all.

        >>> from penstock import Publisher, Subscriber
        >>> subscriber = Subscriber("s3", broker="127.0.0.1:9092")
        >>> subscriber.subscribe("words")
        >>> _ = Publisher("p3", broker="127.0.0.1:9092").put("words", "hello")
        >>> with subscriber.transaction() as transaction:
        ...     message = transaction.get(timeout=5)
        ...     transaction.put("loud-words", message.text.upper())

        Messages are stored and positions moved when the block ends, in one transaction. When it ends with an
        exception, nothing happened: the messages it got come again.
        """
        with self._use().transaction() as transaction:
            yield SubscriberTransaction(transaction)

    def close(self) -> None:
        """Ends connections and threads. With `positions`, the position of the last message is written."""
        try:
            if self._closing.alive:
                self._transport.finish()
        finally:
            self._closing()

    def _use(self) -> KafkaSubscriber:
        if not self._closing.alive:
            raise ClosedError("the subscriber is closed")
        return self._transport

    def __enter__(self) -> Subscriber:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._closing()  # the last message may not have been stored by whoever got it


def check_number(n: int) -> int:
    if n < 1:
        raise ValueError(f"n is at least 1, not {n!r}")
    return n


def check_wait(timeout: float | None) -> float | None:
    if timeout is not None and not 0 <= timeout <= WAIT_S_MAX:
        raise ValueError(f"timeout is a number of seconds, or None, not {timeout!r}")
    return timeout


def check_positions(positions: Mapping[Partition, int] | None) -> dict[Partition, int] | None:
    """An application's positions may come from a file that somebody has written by hand."""
    for partition, offset in (positions or {}).items():
        if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
            raise ValueError(f"the position of {partition!r} is an offset, not {offset!r}")
        if not isinstance(partition, tuple) or [type(part) for part in partition] != [str, int]:
            raise ValueError(f"positions are those of (topic, partition), not of {partition!r}")
    return None if positions is None else dict(positions)
