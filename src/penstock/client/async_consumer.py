"""Reading messages from coroutines.

The work is done in threads. A coroutine may be cancelled while its thread asks for the next message, which
then comes with nobody there to take it. It is kept for whoever asks next: cancelling loses nothing.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.client.opening import Opening
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
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from penstock.client.types import ConsumerTransport

T = TypeVar("T")

THREADS_MAX: Final = 32


class AsyncConsumer:
    """A Consumer whose methods are coroutines.

    >>> import asyncio
    >>> from penstock import AsyncConsumer, AsyncProducer
    >>> async def main(broker):
    ...     async with AsyncProducer(["letters"], broker) as producer:
    ...         await producer.send("letters", "a")
    ...         await producer.send("letters", "b")
    ...     async with AsyncConsumer(["letters"], broker) as consumer:
    ...         while await consumer.has_next("letters"):
    ...             print(await consumer.get_next("letters"), await consumer.size("letters"))
    >>> asyncio.run(main("127.0.0.1:9092"))
    a 1
    b 0

    It connects with `async with`, with `open`, or with the first of the other calls; `id` and `ids` can be
    used from then on, until it is closed.
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
        names = self._topics = topic_names(topics)
        check_timeout(timeout_s)
        self._opening = Opening(lambda: open_consumer(names, broker, id, token, timeout_s))
        # One thread for each topic, since a topic is read by one at a time.
        self._threads = ThreadPoolExecutor(min(len(names), THREADS_MAX), "penstock-consumer")
        self._locks = {topic: asyncio.Lock() for topic in names}
        self._asked: dict[str, Future[bytes]] = {}
        """What a cancelled `get_next` has asked for."""
        self._remembering: Future[None] | None = None

    @property
    def topics(self) -> tuple[str, ...]:
        return self._topics

    @property
    def id(self) -> int:
        """As `Consumer.id`. Positions are kept in the cluster by the time that the next call is done."""
        return single_id(self.ids)

    @property
    def ids(self) -> dict[str, int]:
        """As `Consumer.ids`."""
        transport = self._opening.opened
        if self._remembering is None:
            self._remembering = self._threads.submit(transport.remember)
        return dict(transport.ids)

    async def open(self) -> None:
        """Connects and makes sure that the topics are there. Nothing happens the second time."""
        await self._opening.open()

    async def has_next(self, topic: str) -> bool:
        """As `Consumer.has_next`."""
        transport = await self._use(topic)
        async with self._locks[topic]:
            return await self._kept(topic) is not None or await self._run(transport.has_next, topic)

    async def get_next(self, topic: str) -> str:
        """As `Consumer.get_next`. When it is cancelled, the next call gets the message."""
        transport = await self._use(topic)
        async with self._locks[topic]:
            message = await self._kept(topic)
            if message is None:
                self._asked[topic] = self._threads.submit(transport.get_next, topic)
                message = await asyncio.shield(asyncio.wrap_future(self._asked[topic]))
            del self._asked[topic]
            return to_text(message)

    async def size(self, topic: str) -> int:
        """As `Consumer.size`."""
        transport = await self._use(topic)
        async with self._locks[topic]:
            kept = await self._kept(topic)
            return await self._run(transport.size, topic) + (kept is not None)

    async def close(self) -> None:
        """Ends connections and threads. A message that a cancelled `get_next` left behind is gone then."""
        try:
            if self._remembering is not None:
                await asyncio.shield(asyncio.wrap_future(self._remembering))
        finally:
            await self._opening.close()
            self._threads.shutdown(wait=False)

    async def _use(self, topic: str) -> ConsumerTransport:
        require_topic(topic, self._topics)
        transport = await self._opening.open()
        if self._remembering is not None:
            if self._remembering.done() and self._remembering.exception() is not None:
                self._remembering = self._threads.submit(transport.remember)
            await asyncio.shield(asyncio.wrap_future(self._remembering))
        return transport

    async def _kept(self, topic: str) -> bytes | None:
        """The message that a cancelled `get_next` asked for, if there was one."""
        asked = self._asked.get(topic)
        if asked is None:
            return None
        await asyncio.shield(asyncio.wait([asyncio.wrap_future(asked)]))
        if asked.exception() is not None:
            del self._asked[topic]  # an answer to an older question: this call asks its own
            return None
        return asked.result()

    async def _run(self, call: Callable[[str], T], topic: str) -> T:
        return await asyncio.shield(asyncio.wrap_future(self._threads.submit(call, topic)))

    async def __aenter__(self) -> AsyncConsumer:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
