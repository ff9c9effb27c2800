"""A topic followed for as long as the gateway runs, whatever becomes of it.

First all that is there from some place on is read, then what comes. Brokers that are away are a delay. A
topic that is missing may come later; one that was deleted, and perhaps made anew, takes what was known of it
along; one whose retention overtook us is begun again. What is on it is judged by whoever follows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from penstock.gateway.kafka.errors import (
    KafkaClientError,
    KafkaUnavailableError,
    OffsetOutOfRangeError,
    TopicRecreatedError,
    UnknownTopicError,
)
from penstock.gateway.streams.following import follow_topic

if TYPE_CHECKING:
    from uuid import UUID

    from penstock.gateway.kafka.reader import LogReader
    from penstock.gateway.streams.start import Positions
    from penstock.kafka.records import ReadRecord

log = logging.getLogger(__name__)

MISSING_S: Final = 1.0
"""Between two looks for a topic that is not there."""
TROUBLE_S: Final = 1.0
"""After brokers did not answer in time."""
REFUSED_S: Final = 10.0
"""After they said that we may not read it, or something unheard of."""
FETCH_BYTES: Final = 1024 * 1024
BEHIND_WAIT_MS: Final = 100
"""For what is known to be there, at a replica that does not have it yet."""

Begin = Callable[["LogReader", str, int], Awaitable[int]]
"""Where to begin in a partition."""


class TopicFollower:
    def __init__(
        self,
        reader: LogReader,
        topic: str,
        *,
        begin: Begin,
        apply: Callable[[list[ReadRecord]], None],
        clear: Callable[[], None],
    ) -> None:
        """`apply` is called with records as they come, each partition in its order, now and then with some a
        second time. `clear` is called when the topic is gone."""
        self._reader = reader
        self._topic = topic
        self._begin = begin
        self._apply = apply
        self._clear = clear
        self._positions: Positions | None = None
        self._topic_id: UUID | None = None
        self._knows_something = False
        self.caught_up = asyncio.Event()
        """What was there at the beginning was read, or there was no topic."""

    async def run(self) -> None:
        while True:
            try:
                await self._follow()
            except UnknownTopicError:
                self._gone()
                self.caught_up.set()
                await asyncio.sleep(MISSING_S)
            except TopicRecreatedError:
                self._gone()
            except OffsetOutOfRangeError as error:
                log.info("%s", error)
                self._positions = None
                await asyncio.sleep(TROUBLE_S)
            except KafkaUnavailableError as error:
                log.warning("%s: %s", self._topic, error)
                await asyncio.sleep(TROUBLE_S)
            except KafkaClientError as error:
                log.error("%s: %s", self._topic, error)
                await asyncio.sleep(REFUSED_S)

    async def _follow(self) -> None:
        topic_id = await self._reader.topic_id(self._topic)
        if topic_id != self._topic_id:
            self._gone()
        self._topic_id, self._knows_something = topic_id, True
        if self._positions is None:
            self._positions = await self._catch_up()
        self.caught_up.set()
        await follow_topic(self._reader, self._topic, self._positions, self._deliver, all_partitions=True)

    def _gone(self) -> None:
        self._positions = None
        if self._knows_something:
            log.info("the topic %s is gone", self._topic)
            self._knows_something = False
            self._clear()

    async def _catch_up(self) -> Positions:
        partitions = await self._reader.partitions(self._topic)
        return {partition: await self._read_to_end(partition) for partition in partitions}

    async def _read_to_end(self, partition: int) -> int:
        """As of now; what is not for readers at the end of a log counts as read."""
        reader, topic = self._reader, self._topic
        offset = await self._begin(reader, topic, partition)
        end = (await reader.offsets(topic, partition)).end
        wait_ms = 0
        while offset < end:
            fetched = await reader.fetch(topic, partition, offset, max_bytes=FETCH_BYTES, wait_ms=wait_ms)
            self._apply(fetched.records)
            wait_ms = BEHIND_WAIT_MS if fetched.next_offset == offset else 0
            offset = fetched.next_offset
        return offset

    async def _deliver(self, records: list[ReadRecord]) -> None:
        self._apply(records)


async def from_beginning(reader: LogReader, topic: str, partition: int) -> int:
    return (await reader.offsets(topic, partition)).start


async def offset_at(reader: LogReader, topic: str, partition: int, timestamp_ms: int) -> int:
    """Of the first record that is not older; where the log ends, if all are."""

    async def ask(route: Any) -> int:
        return await reader.client.list_offset(route, topic, partition, max(0, timestamp_ms))

    found: int = await reader.client.insist(topic, partition, ask, of_leader=True)
    return found if found >= 0 else (await reader.offsets(topic, partition)).end
