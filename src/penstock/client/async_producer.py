"""Sending messages from coroutines."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from penstock.client.errors import DisconnectedServerError
from penstock.client.opening import Opening
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

FULL_PAUSE_S: Final = 0.005


class AsyncProducer:
    """A Producer whose methods are coroutines. Many may send at the same time.

    >>> import asyncio
    >>> from penstock import AsyncProducer
    >>> async def main():
    ...     async with AsyncProducer(["steps"], broker="127.0.0.1:9092") as producer:
    ...         sent = await asyncio.gather(*(producer.send("steps", f"step {n}") for n in range(100)))
    ...     return sorted(delivered.offset for delivered in sent) == list(range(100))
    >>> asyncio.run(main())
    True

    It connects with `async with`, with `open`, or with the first `send`.
    """

    def __init__(
        self,
        topics: str | Iterable[str],
        broker: str = DEFAULT_BROKER,
        *,
        token: str | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        names = self._topics = topic_names(topics)
        self._timeout_s = check_timeout(timeout_s)
        self._opening = Opening(lambda: open_producer(names, broker, token, timeout_s))

    @property
    def topics(self) -> tuple[str, ...]:
        return self._topics

    async def open(self) -> None:
        """Connects and makes sure that the topics are there. Nothing happens the second time."""
        await self._opening.open()

    async def send(self, topic: str, message: str | bytes, key: str | bytes | None = None) -> Delivered:
        """As `Producer.send`. Messages that one coroutine awaits one after the other keep their order.

        When it is cancelled, the message may be stored or not.
        """
        require_topic(topic, self._topics)
        value, key_bytes = to_bytes(message), None if key is None else to_bytes(key)
        transport = await self._opening.open()
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                future = transport.submit(topic, value, key_bytes)
            except BufferError as error:
                if time.monotonic() >= deadline:
                    raise DisconnectedServerError(
                        f"a message to topic {topic!r} was not sent: {error} for {self._timeout_s:g} s"
                    ) from error
                await asyncio.sleep(FULL_PAUSE_S)
            else:
                return await asyncio.wrap_future(future)

    async def close(self) -> None:
        """Waits for what is on its way, then ends connections and threads."""
        await self._opening.close()

    async def __aenter__(self) -> AsyncProducer:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
