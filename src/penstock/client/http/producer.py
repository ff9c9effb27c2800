"""Sending through a gateway. Each topic has a producer id of its own; a message has a request id."""

from __future__ import annotations

import threading
import time
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from penstock.client.errors import InvalidMessageError
from penstock.client.http.failures import REGISTER, Refused
from penstock.client.http.gateway import NOT_FOUND
from penstock.client.types import Delivered

if TYPE_CHECKING:
    from penstock.client.http.gateway import Gateway

CONCURRENT_MAX: Final = 32
"""Requests at the same time for coroutines; each needs a thread."""
UNKNOWN_TOPIC_S: Final = 3.0
"""For so long a topic may be unknown to a gateway that has not heard of its creation yet."""
PAUSE_S: Final = 0.1
WAITING_MAX: Final = 10_000
"""Messages of coroutines that wait for one of those threads."""


class HttpProducer:
    def __init__(self, gateway: Gateway, topics: tuple[str, ...]) -> None:
        self._gateway = gateway
        self._ids = {topic: register(gateway, "producer", topic) for topic in topics}
        self._executor = ThreadPoolExecutor(CONCURRENT_MAX, "penstock-producer")
        self._waiting = threading.BoundedSemaphore(WAITING_MAX)

    def send(self, topic: str, message: bytes, key: bytes | None) -> Delivered:
        what = f"a message to topic {topic!r} was not acknowledged"
        if key is not None:
            raise InvalidMessageError(f"{what}: the topic-queue endpoints have no keys")
        text, request_id = _text(message, what), uuid.uuid4().hex
        deadline = None
        while True:
            try:
                return self._produce(topic, text, request_id, what)
            except Refused as refused:
                over = deadline is not None and time.monotonic() >= deadline
                if refused.status != NOT_FOUND or over:
                    raise refused.as_error(what) from refused
            if deadline is None:
                # The topic was deleted, or a cluster in memory has started again: as on the first day.
                self._ids[topic] = register(self._gateway, "producer", topic)
                deadline = time.monotonic() + min(UNKNOWN_TOPIC_S, self._gateway.timeout_s)
            else:
                time.sleep(PAUSE_S)

    def _produce(self, topic: str, text: str, request_id: str, what: str) -> Delivered:
        answer = self._gateway.post(
            "/producer/produce",
            what,
            topic=topic,
            producer_id=self._ids[topic],
            message=text,
            request_id=request_id,
        )
        return Delivered(topic, answer.number("partition"), answer.number("offset"))

    def submit(self, topic: str, message: bytes, key: bytes | None) -> Future[Delivered]:
        if not self._waiting.acquire(blocking=False):
            raise BufferError("too many messages wait to be sent")
        future = self._executor.submit(self.send, topic, message, key)
        future.add_done_callback(lambda _: self._waiting.release())
        return future

    def close(self) -> None:
        self._executor.shutdown()
        self._gateway.close()


def register(gateway: Gateway, kind: str, topic: str) -> int:
    """A new id for a `producer` or `consumer` of the topic, which is created if it is missing."""
    what = f"topic {topic!r} cannot be used"
    try:
        return gateway.post(f"/{kind}/register", what, topic=topic).number(f"{kind}_id")
    except Refused as refused:
        raise refused.as_error(what, REGISTER) from refused


def _text(message: bytes, what: str) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        raise InvalidMessageError(f"{what}: over HTTP it must be UTF-8: {error}") from error
