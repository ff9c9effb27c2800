"""Which produce requests a topic's partition holds already: a look-up in the log itself.

A message with a request id carries it in a header. A gateway that gets such a request reads what was written
since it last looked, up to the end of the log as of now, and finds the id if any gateway has stored it. What
it wrote itself it knows without reading.

How far back: `produce_index_offsets` offsets. What is not covered: a repetition that reaches another gateway
while the first attempt is still on its way to the broker. Within one gateway both get the same answer.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from penstock.gateway.kafka.errors import OffsetOutOfRangeError
from penstock.gateway.queue.fresh import Fresh

if TYPE_CHECKING:
    from penstock.gateway.kafka.clients import Kafka
    from penstock.gateway.kafka.producer import Delivered
    from penstock.kafka.records import Offsets

HEADER: Final = "penstock-request"
FETCH_BYTES: Final = 1024 * 1024
BEHIND_WAIT_MS: Final = 100


class RequestIndex:
    """Request ids and their first offsets, for the last offsets of a log. Pure."""

    def __init__(self, offsets_max: int) -> None:
        self._offsets_max = offsets_max
        self._offsets: OrderedDict[bytes, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._offsets)

    def get(self, request: bytes) -> int | None:
        return self._offsets.get(request)

    def add(self, request: bytes, offset: int) -> int:
        """The offset that counts: the first one."""
        first = self._offsets.setdefault(request, offset)
        while self._offsets:
            oldest = next(iter(self._offsets))
            if self._offsets[oldest] > offset - self._offsets_max:
                break
            del self._offsets[oldest]
        return first

    def clear(self) -> None:
        self._offsets.clear()


class ProduceIndex:
    """The requests in one partition, and those that are on their way into it from here."""

    def __init__(self, kafka: Kafka, topic: str, partition: int, offsets_max: int) -> None:
        self._kafka = kafka
        self._topic = topic
        self._partition = partition
        self._offsets_max = offsets_max
        self._index = RequestIndex(offsets_max)
        self._next = -1
        """The first offset that was not read; -1 at first."""
        self._reading = asyncio.Lock()
        self._ends: Fresh[Offsets] = Fresh(self._ask_ends)
        self._sending: dict[bytes, asyncio.Task[int]] = {}

    @property
    def is_idle(self) -> bool:
        return not self._sending

    async def send(self, request: bytes, value: bytes) -> int:
        """The offset of the message of this request, now or earlier."""
        sending = self._sending.get(request)
        if sending is None:
            sending = self._sending[request] = asyncio.create_task(self._send(request, value))
            sending.add_done_callback(lambda _: self._sending.pop(request))
        return await asyncio.shield(sending)

    async def _send(self, request: bytes, value: bytes) -> int:
        await self._catch_up()
        found = self._index.get(request)
        if found is not None:
            return found
        delivered = await self._kafka.producer.send(
            self._topic, value, partition=self._partition, headers=[(HEADER, request)]
        )
        return self._delivered(request, delivered)

    def _delivered(self, request: bytes, delivered: Delivered) -> int:
        if delivered.offset == self._next:
            self._next += 1
        elif delivered.offset < self._next and self._index.get(request) is None:
            self._next = -1  # we have read past it and not seen it, so that was another log
        return self._index.add(request, delivered.offset)

    async def _catch_up(self) -> None:
        """Read on to the end of the log as of now."""
        known = self._next
        ends = await self._ends.get()
        if known > ends.end:  # not the log that we have read
            self._next = -1
        elif self._next >= ends.end:
            return
        async with self._reading:
            oldest = max(ends.start, ends.end - self._offsets_max)
            if self._next < oldest:
                self._restart(oldest)
            wait_ms = 0
            while self._next < ends.end:
                before = self._next
                await self._read(wait_ms)
                wait_ms = BEHIND_WAIT_MS if self._next == before else 0

    async def _read(self, wait_ms: int) -> None:
        try:
            fetched = await self._kafka.reader.fetch(
                self._topic, self._partition, self._next, max_bytes=FETCH_BYTES, wait_ms=wait_ms
            )
        except OffsetOutOfRangeError as error:
            self._restart(max(error.start, error.end - self._offsets_max))
            return
        for record in fetched.records:
            for name, value in record.headers:
                if name == HEADER and value is not None:
                    self._index.add(value, record.offset)
        self._next = max(self._next, fetched.next_offset)

    def _restart(self, offset: int) -> None:
        self._index.clear()
        self._next = offset

    async def _ask_ends(self) -> Offsets:
        return await self._kafka.reader.offsets(self._topic, self._partition)
