"""Messages before a consumer: as many as a reader would find, and read no more often than needed."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.gateway.kafka.errors import KafkaUnavailableError, OffsetOutOfRangeError
from penstock.gateway.queue.counting import STEPS_MAX, Counted, Counting, PartitionKey
from penstock.kafka.records import Fetched, Offsets, ReadRecord

KEY = PartitionKey("id", 0)


class FakeLog:
    """A log with gaps, which gives a few offsets to each fetch. As `Kafka`, as far as counting uses it."""

    def __init__(self, is_message: list[bool], step: int) -> None:
        self.is_message = is_message
        self.start = 0
        self.step = step
        self.fetched: list[int] = []
        self.policy: str | None = "delete"
        self.reader = self.admin = self

    async def offsets(self, topic: str, partition: int) -> Offsets:
        return Offsets(self.start, len(self.is_message))

    async def fetch(self, topic: str, partition: int, offset: int, **_: Any) -> Fetched:
        end = len(self.is_message)
        if not self.start <= offset <= end:
            raise OffsetOutOfRangeError(topic, partition, offset, self.start, end)
        self.fetched.append(offset)
        stop = min(end, offset + self.step)
        found = [ReadRecord(0, at, 0, None, b"") for at in range(offset, stop) if self.is_message[at]]
        return Fetched(found, stop, end, self.start)

    async def configs(self, topic: str) -> Any:
        if self.policy is None:
            raise KafkaUnavailableError("away")
        return {"cleanup.policy": SimpleNamespace(value=self.policy)}

    def messages(self, position: int) -> int:
        return sum(self.is_message[max(position, self.start) :])


@given(
    st.lists(st.booleans(), max_size=40),
    st.integers(1, 7),
    st.lists(st.tuples(st.sampled_from(["ask", "grow", "trim"]), st.integers(0, 50)), max_size=12),
)
def test_what_is_counted_is_what_is_there(log: list[bool], step: int, steps: list[tuple[str, int]]) -> None:
    async def run() -> None:
        fake = FakeLog(log, step)
        counts = Counting(fake)  # type: ignore[arg-type]
        for what, number in steps:
            end = len(fake.is_message)
            if what == "grow":
                fake.is_message += [number >> bit & 1 == 1 for bit in range(5)]
            elif what == "trim":
                fake.start = max(fake.start, min(number, end))
            else:
                position = min(number, end)
                expected = fake.messages(position if position >= fake.start else 0)
                assert await counts.all("t", KEY, position, is_stable=True) == expected
                assert await counts.all("t", KEY._replace(partition=1), position, is_stable=False) == expected
                assert await counts.at_least("t", 0, position, 3) == min(3, expected)

    asyncio.run(run())


def test_each_message_is_read_once_and_then_only_the_step_of_the_consumer() -> None:
    async def run() -> None:
        fake = FakeLog([True] * 1000, step=10)
        counts = Counting(fake)  # type: ignore[arg-type]
        assert await counts.all("t", KEY, 500, is_stable=True) == 500
        assert len(fake.fetched) == 50
        assert await counts.all("t", KEY, 0, is_stable=True) == 1000
        assert len(fake.fetched) == 100
        fake.fetched.clear()
        assert await counts.all("t", KEY, 333, is_stable=True) == 667
        fake.is_message += [True] * 10
        assert await counts.all("t", KEY, 700, is_stable=True) == 310
        assert fake.fetched == [333, 1000]
        fake.fetched.clear()
        assert await counts.at_least("t", 0, 5, 12) == 12
        assert len(fake.fetched) == 2

    asyncio.run(run())


def test_what_was_counted_is_kept_when_the_request_is_given_up() -> None:
    class Stuck(FakeLog):
        def __init__(self) -> None:
            super().__init__([True] * 50, step=10)
            self.is_stuck = asyncio.Event()

        async def fetch(self, topic: str, partition: int, offset: int, **more: Any) -> Fetched:
            if offset == 20 and offset not in self.fetched:
                self.fetched.append(offset)
                self.is_stuck.set()
                await asyncio.Event().wait()
            return await super().fetch(topic, partition, offset, **more)

    async def run() -> None:
        fake = Stuck()
        counts = Counting(fake)  # type: ignore[arg-type]
        asked = asyncio.create_task(counts.all("t", KEY, 0, is_stable=True))
        await fake.is_stuck.wait()
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        assert await counts.all("t", KEY, 0, is_stable=True) == 50
        assert fake.fetched == [0, 10, 20, 20, 30, 40]

    asyncio.run(run())


def test_a_compacted_topic_is_counted_anew() -> None:
    async def run() -> None:
        fake = FakeLog([True] * 30, step=10)
        counts = Counting(fake)  # type: ignore[arg-type]
        assert await counts.is_stable("t")
        for policy in ("compact", "compact,delete", None):
            fake.policy = policy
            assert not await counts.is_stable("t")
        assert await counts.all("t", KEY, 0, is_stable=False) == 30
        fake.is_message[3:20] = [False] * 17
        assert await counts.all("t", KEY, 0, is_stable=False) == 13

    asyncio.run(run())


def test_few_steps_are_remembered_of_a_long_log_and_all_are_as_long() -> None:
    counted = Counted(5 * STEPS_MAX)
    for number in range(5 * STEPS_MAX):
        counted.append(counted.end + 1, 2)
        if number % 2:
            counted.prepend(counted.first - 1, 3)
    middle = 5 * STEPS_MAX
    assert (counted.first, counted.end) == (middle - 5 * STEPS_MAX // 2, 10 * STEPS_MAX)
    assert STEPS_MAX // 4 <= len(counted._offsets) <= STEPS_MAX == 2 * (STEPS_MAX // 2)
    for position in range(counted.first, counted.end):
        step = counted.step_at(position)
        assert position <= step <= position + 32
        expected = 2 * (counted.end - max(step, middle)) + 3 * max(0, middle - step)
        assert counted.messages_from(step) == expected
