"""How many messages lie before a consumer, exactly.

Offsets do not tell: markers of transactions have some, and so have messages that were aborted or compacted.
The Kafka protocol has no question for it either. So what lies between the consumer and the end of the log is
read and counted, once: what was counted is remembered in steps of one fetch. The next question, whoever asks
it, reads what is new and the rest of the step that its consumer is in, which is at most `STEP_BYTES`, or a
thousandth of a log of gigabytes.

A compacted topic forgets messages anywhere in its log, so that what was counted may be wrong a moment later:
there it is counted anew each time. The same goes for topics whose settings the gateway may not see.

Whoever needs to know only whether there are messages says how many are enough (`at_most`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import OrderedDict
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.gateway.kafka.errors import KafkaClientError, OffsetOutOfRangeError
from penstock.gateway.queue.keyed_locks import KeyedLocks
from penstock.gateway.queue.shared_log import BEHIND_WAIT_MS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from penstock.gateway.kafka.clients import Kafka

STEP_BYTES: Final = 1024 * 1024
STEPS_MAX: Final = 1024
"""Of one partition. When there are more, every second one is forgotten."""
PARTITIONS_MAX: Final = 2_000
"""For which it is remembered: 16 KiB each, at most."""


class PartitionKey(NamedTuple):
    topic_id: str
    partition: int


class Counted:
    """The messages of one stretch of a log, which grows at both ends. Pure."""

    def __init__(self, first: int) -> None:
        self._offsets = array("q", [first])
        self._counts = array("q", [0])
        """For each of the offsets, the messages before it; from where on is of no importance."""
        self._fetches = 1
        """In each step. As steps get longer all do, or those that were counted first would be the longest."""
        self._in_first = self._in_last = 0
        """Fetches in the first step and in the last one; together they are not one step."""

    @property
    def first(self) -> int:
        return self._offsets[0]

    @property
    def end(self) -> int:
        return self._offsets[-1]

    def step_at(self, position: int) -> int:
        """The first offset at or after the position from which the messages up to the end are known."""
        return self._offsets[bisect_left(self._offsets, position)]

    def messages_from(self, step: int) -> int:
        """Up to the end; `step` is one that `step_at` gave."""
        return self._counts[-1] - self._counts[bisect_left(self._offsets, step)]

    def append(self, end: int, messages: int) -> None:
        if 0 < self._in_last < self._fetches and len(self._offsets) > 2:
            self._offsets[-1] = end
            self._counts[-1] += messages
            self._in_last += 1
        else:
            self._offsets.append(end)
            self._counts.append(self._counts[-1] + messages)
            self._in_last = 1
            self._lengthen_steps()

    def prepend(self, first: int, messages: int) -> None:
        if 0 < self._in_first < self._fetches and len(self._offsets) > 2:
            self._offsets[0] = first
            self._counts[0] -= messages
            self._in_first += 1
        else:
            self._offsets.insert(0, first)
            self._counts.insert(0, self._counts[0] - messages)
            self._in_first = 1
            self._lengthen_steps()

    def _lengthen_steps(self) -> None:
        if len(self._offsets) <= STEPS_MAX:
            return
        # Both ends stay: STEPS_MAX is even, so there is one more than that now.
        self._offsets, self._counts = self._offsets[::2], self._counts[::2]
        self._fetches *= 2
        self._in_first = self._in_last = self._fetches


class Counting:
    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._locks = KeyedLocks()
        self._counted: OrderedDict[PartitionKey, Counted] = OrderedDict()

    async def is_stable(self, topic: str) -> bool:
        """Whether messages only go away at the beginning of its log."""
        try:
            policy = (await self._kafka.admin.configs(topic)).get("cleanup.policy")
        except KafkaClientError:
            return False
        return policy is not None and "compact" not in (policy.value or "")

    async def at_least(self, topic: str, partition: int, position: int | None, enough: int) -> int:
        """The messages from the position on, of which no more than `enough` are counted."""
        offsets = await self._kafka.reader.offsets(topic, partition)
        first = _inside(position, offsets.start, offsets.end)
        found = 0
        async with aclosing(self._steps(topic, partition, first, offsets.end)) as steps:
            async for _, messages in steps:
                found += messages
                if found >= enough:
                    break
        return min(found, enough)

    async def all(self, topic: str, key: PartitionKey, position: int | None, *, is_stable: bool) -> int:
        """The messages from the position on, or of the whole partition if it does not hold the position."""
        async with self._locks.hold(key):
            while True:
                offsets = await self._kafka.reader.offsets(topic, key.partition)
                first = _inside(position, offsets.start, offsets.end)
                counted = self._counted.get(key)
                if counted is None or not is_stable or counted.end > offsets.end:
                    counted = self._counted[key] = Counted(first)
                self._counted.move_to_end(key)
                if len(self._counted) > PARTITIONS_MAX:
                    self._counted.popitem(last=False)
                try:
                    return await self._count(topic, key.partition, counted, first, offsets.end)
                except OffsetOutOfRangeError:
                    self._counted.pop(key, None)  # retention has come as far as that

    async def _count(self, topic: str, partition: int, counted: Counted, first: int, end: int) -> int:
        # What was counted stays so when the request is given up in between.
        async with aclosing(self._steps(topic, partition, counted.end, end)) as steps:
            async for step, messages in steps:
                counted.append(step, messages)
        if first < counted.first:
            start, before = first, []
            async with aclosing(self._steps(topic, partition, first, counted.first)) as steps:
                async for end_of_step, messages in steps:
                    before.append((start, messages))
                    start = end_of_step
            for start, messages in reversed(before):
                counted.prepend(start, messages)
        step = counted.step_at(first)
        found = counted.messages_from(step)
        async with aclosing(self._steps(topic, partition, first, step)) as steps:
            async for _, messages in steps:
                found += messages
        return found

    async def _steps(
        self, topic: str, partition: int, first: int, until: int
    ) -> AsyncGenerator[tuple[int, int], None]:
        """Where each step ends, and how many messages are in it."""
        offset, wait_ms = first, 0
        while offset < until:
            fetched = await self._kafka.reader.fetch(
                topic, partition, offset, max_bytes=STEP_BYTES, wait_ms=wait_ms
            )
            # A follower may not have heard of the newest messages yet.
            wait_ms = BEHIND_WAIT_MS if fetched.next_offset == offset else 0
            offset = min(fetched.next_offset, until)
            messages = sum(record.offset < until for record in fetched.records)
            if wait_ms == 0:
                yield offset, messages


def _inside(position: int | None, start: int, end: int) -> int:
    """Who was nowhere, or outside of what there is, reads from the beginning."""
    return position if position is not None and start <= position <= end else start
