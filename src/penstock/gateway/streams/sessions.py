"""What becomes of the messages that a client writes over a WebSocket: in order in, in order out.

A session is given frames, or the answers to those that were no messages, and gives back answers, one for each
and in the same order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from penstock.gateway.kafka.errors import KafkaClientError, UnknownPartitionError, UnknownTopicError
from penstock.gateway.streams.frames import Frame, refused, stored

if TYPE_CHECKING:
    from penstock.gateway.kafka.producer import Delivered, KafkaProducer
    from penstock.gateway.streams.sequenced_session import SequencedSession

ANSWERS_MAX: Final = 500
"""Given back at once."""


class Answer(NamedTuple):
    text: bytes
    size: int
    """Of the message that it answers."""


class Session(Protocol):
    def accept(self, item: Frame | Answer) -> None: ...

    async def next_answers(self) -> list[Answer]: ...


class PlainSession:
    """Each message goes to the producer at once, and its answer comes when it is stored."""

    def __init__(self, producer: KafkaProducer, topic: str, partition: int | None) -> None:
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._items: asyncio.Queue[tuple[Frame, asyncio.Future[Delivered]] | Answer] = asyncio.Queue()

    def accept(self, item: Frame | Answer) -> None:
        if isinstance(item, Answer):
            self._items.put_nowait(item)
            return
        partition = self._partition if item.partition is None else item.partition
        try:
            delivered = self._producer.send(self._topic, item.value, key=item.key, partition=partition)
        except KafkaClientError as error:
            self._items.put_nowait(Answer(refused(str(error), item.sequence), item.size))
        else:
            self._items.put_nowait((item, delivered))

    async def next_answers(self) -> list[Answer]:
        item = await self._items.get()
        if isinstance(item, Answer):
            return [item]
        frame, delivered = item
        try:
            where = await delivered
        except UnknownTopicError as error:
            partition = self._partition if frame.partition is None else frame.partition
            message = str(error if partition is None else UnknownPartitionError(self._topic, partition))
            return [Answer(refused(message, frame.sequence), frame.size)]
        except KafkaClientError as error:
            return [Answer(refused(str(error), frame.sequence), frame.size)]
        return [Answer(stored(frame.sequence, where.partition, where.offset), frame.size)]


class NumberedSession:
    """Messages wait while a batch is on its way, and go together in the next."""

    def __init__(self, sequenced: SequencedSession) -> None:
        self._sequenced = sequenced
        self._items: deque[Frame | Answer] = deque()
        self._arrived = asyncio.Event()

    def accept(self, item: Frame | Answer) -> None:
        self._items.append(item)
        self._arrived.set()

    async def next_answers(self) -> list[Answer]:
        while not self._items:
            self._arrived.clear()
            await self._arrived.wait()
        frames: list[Frame] = []
        while self._items and len(frames) < ANSWERS_MAX:
            item = self._items[0]
            if isinstance(item, Answer):
                if not frames:
                    self._items.popleft()
                    return [item]
                break
            frames.append(item)
            self._items.popleft()
        answers = await self._sequenced.store(frames)
        return [Answer(text, frame.size) for text, frame in zip(answers, frames, strict=True)]
