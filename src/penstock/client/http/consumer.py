"""Reading through a gateway, which keeps the position of each consumer id.

The gateway moves the position before it answers. A consume request that was not answered may have moved it,
so its `request_id` is kept and used again until there is an answer, also by the next call: the message of a
lost answer is neither skipped nor got twice.
"""

from __future__ import annotations

import base64
import binascii
import threading
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.client.errors import (
    ConsumerNotFoundError,
    NoMessageError,
    PenstockError,
    TopicNotFoundError,
)
from penstock.client.http.failures import Refused, not_understood
from penstock.client.http.gateway import FORBIDDEN, GONE, NO_CONTENT, NOT_FOUND, Answer
from penstock.client.http.producer import register
from penstock.client.types import consumer_ids

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.client.http.gateway import Gateway


LOOK_AHEAD: Final = 100
"""So many messages are counted at most when it is asked whether there is one: the next questions of that kind
need not be sent."""


@dataclass
class Queue:
    """What is known of one topic."""

    consumer_id: int
    unanswered: str | None = None
    """The request_id of the last consume request, until there is an answer."""
    left: int = 0
    """At least so many messages were there, when last seen, minus those got since."""
    lock: threading.Lock = field(default_factory=threading.Lock)


class HttpConsumer:
    def __init__(
        self, gateway: Gateway, topics: tuple[str, ...], given: int | Mapping[str, int] | None
    ) -> None:
        self._gateway = gateway
        if given is None:
            ids = {topic: register(gateway, "consumer", topic) for topic in topics}
        elif isinstance(given, int) and len(topics) > 1:
            raise ValueError("over HTTP a consumer has an id for each topic: give a mapping, as in its ids")
        else:
            ids = consumer_ids(topics, given)
        self._queues = {topic: Queue(number) for topic, number in ids.items()}
        if given is not None:
            for topic in topics:
                self._size(topic, at_most=1)  # an id that is not one of a consumer of the topic shows here

    @property
    def ids(self) -> Mapping[str, int]:
        return {topic: queue.consumer_id for topic, queue in self._queues.items()}

    def remember(self) -> None:
        """The gateway remembers everything anyway."""

    def has_next(self, topic: str) -> bool:
        # Only this client consumes with this id, as a rule: what was there is there still.
        return self._queues[topic].left > 0 or self._size(topic, at_most=LOOK_AHEAD) > 0

    def get_next(self, topic: str) -> bytes:
        queue = self._queues[topic]
        with queue.lock:
            answer = None
            while answer is None:
                answer = self._consume(topic, queue)
            if answer.status == NO_CONTENT:
                queue.left = 0
                raise NoMessageError(f"no message is left in topic {topic!r}")
            queue.left = max(0, queue.left - 1)
            return _message(answer)

    def size(self, topic: str) -> int:
        return self._size(topic)

    def _size(self, topic: str, **at_most: int) -> int:
        queue = self._queues[topic]
        with queue.lock:
            try:
                queue.left = self._ask("/size", topic, **at_most).number("size")
            except Refused as refused:
                raise self._explained(refused, topic) from refused
            return queue.left

    def close(self) -> None:
        self._gateway.close()

    def _consume(self, topic: str, queue: Queue) -> Answer | None:
        """None for a message that was removed from the log before its answer arrived."""
        queue.unanswered = queue.unanswered or uuid.uuid4().hex
        try:
            answer = self._ask("/consumer/consume", topic, request_id=queue.unanswered)
        except Refused as refused:
            queue.unanswered = None
            if refused.status == GONE:
                return None
            raise self._explained(refused, topic) from refused
        queue.unanswered = None
        return answer

    def _ask(self, path: str, topic: str, **query: str | int) -> Answer:
        number = self._queues[topic].consumer_id
        return self._gateway.get(path, _what(topic), topic=topic, consumer_id=number, **query)

    def _explained(self, refused: Refused, topic: str) -> PenstockError:
        """A token, a topic or an id may be what the gateway does not take: the first two can be tried."""
        if refused.status not in (FORBIDDEN, NOT_FOUND):
            return refused.as_error(_what(topic))
        try:
            there = self._gateway.get("/topics", _what(topic)).fields.get("topics", ())
        except Refused as other:
            return other.as_error(_what(topic))
        kind = ConsumerNotFoundError if topic in there else TopicNotFoundError
        return kind(f"{_what(topic)}: {refused.message}")


def _what(topic: str) -> str:
    return f"topic {topic!r} cannot be read"


def _message(answer: Answer) -> bytes:
    if answer.fields.get("message", "") is None:
        return b""  # a tombstone
    text = answer.text("message")
    if answer.fields.get("encoding") != "base64":
        return text.encode("utf-8", "surrogateescape")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise not_understood("a message is not base64") from error
