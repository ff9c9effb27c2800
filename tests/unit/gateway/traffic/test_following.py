"""Following a topic through everything that can become of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

import pytest

from penstock.gateway.traffic import following
from penstock.gateway.traffic.following import TopicFollower, from_beginning, offset_at
from penstock.gateway.traffic.recent import LOOK_BACK_OFFSETS, recent_start
from tests.unit.gateway.traffic.fake_reader import FakeReader
from tests.unit.gateway.traffic.records import cell, totals

if TYPE_CHECKING:
    from penstock.gateway.kafka.reader import LogReader
    from penstock.kafka.records import ReadRecord

SECONDS_MAX = 10.0


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "MISSING_S", 0.001)
    monkeypatch.setattr(following, "TROUBLE_S", 0.001)


class Followed:
    def __init__(self, reader: FakeReader) -> None:
        self.reader = reader
        self.values: list[bytes | None] = []
        self.cleared = 0
        self.follower = TopicFollower(
            cast("LogReader", reader), "t", begin=from_beginning, apply=self.apply, clear=self.clear
        )

    def apply(self, records: list[ReadRecord]) -> None:
        self.values += [record.value for record in records]

    def clear(self) -> None:
        self.cleared += 1
        self.values = []

    async def until(self, *values: bytes) -> None:
        await until(lambda: self.values == list(values))

    async def until_refused(self) -> None:
        """Asked in vain, more than once."""
        before = self.reader.refusals
        await until(lambda: self.reader.refusals >= before + 3)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - what is waited for knows of no events
        await asyncio.sleep(0)


@asynccontextmanager
async def followed(reader: FakeReader) -> AsyncIterator[Followed]:
    found = Followed(reader)
    task = asyncio.create_task(found.follower.run())
    try:
        async with asyncio.timeout(SECONDS_MAX):
            yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def value(number: int) -> tuple[None, bytes]:
    return None, b"%d" % number


def test_what_is_there_and_what_comes() -> None:
    async def run() -> None:
        reader = FakeReader()
        reader.create("t")
        reader.write("t", *map(value, range(7)))
        reader.write_marker("t")
        async with followed(reader) as found:
            await found.follower.caught_up.wait()
            assert found.values == [b"%d" % number for number in range(7)]
            reader.write_marker("t")
            reader.write("t", value(7))
            await found.until(*(b"%d" % number for number in range(8)))

    asyncio.run(run())


def test_several_partitions() -> None:
    async def run() -> None:
        reader = FakeReader()
        reader.create("t", 4)
        for partition in range(4):
            reader.write("t", value(partition), partition=partition)
        async with followed(reader) as found:
            await found.follower.caught_up.wait()
            assert sorted(map(str, found.values)) == ["b'0'", "b'1'", "b'2'", "b'3'"]
            reader.write("t", value(4), partition=2)
            await found.until(b"0", b"1", b"2", b"3", b"4")

    asyncio.run(run())


def test_a_topic_that_comes_later() -> None:
    async def run() -> None:
        reader = FakeReader()
        async with followed(reader) as found:
            await found.follower.caught_up.wait()  # that there is nothing is known, too
            reader.create("t")
            reader.write("t", value(1))
            await found.until(b"1")
            assert found.cleared == 0

    asyncio.run(run())


def test_a_topic_that_is_deleted_and_made_anew() -> None:
    async def run() -> None:
        reader = FakeReader()
        reader.create("t")
        reader.write("t", value(1), value(2))
        async with followed(reader) as found:
            await found.until(b"1", b"2")
            reader.create("t")  # in its place, at once
            reader.write("t", value(3))
            await found.until(b"3")
            assert found.cleared == 1
            reader.delete("t")
            await found.until()
            assert found.cleared == 2
            reader.create("t")
            reader.write("t", *map(value, range(9)))
            await found.until(*(b"%d" % number for number in range(9)))

    asyncio.run(run())


def test_a_topic_that_is_made_anew_while_nobody_answers() -> None:
    async def run() -> None:
        reader = FakeReader()
        reader.create("t")
        reader.write("t", value(1))
        async with followed(reader) as found:
            await found.until(b"1")
            reader.go_away()
            await found.until_refused()
            assert found.values == [b"1"]  # it is the last that is known
            reader.create("t")
            reader.write("t", value(2), value(3))
            reader.is_away = False
            await found.until(b"2", b"3")
            assert found.cleared == 1

    asyncio.run(run())


def test_brokers_that_are_away_for_a_while() -> None:
    async def run() -> None:
        reader = FakeReader()
        reader.is_away = True
        async with followed(reader) as found:
            await found.until_refused()
            assert not found.follower.caught_up.is_set()
            reader.create("t")
            reader.write("t", value(1))
            reader.is_away = False
            await found.follower.caught_up.wait()
            reader.go_away()
            await found.until_refused()
            reader.is_away = False
            reader.write("t", value(2))
            await found.until(b"1", b"2")  # each once: it went on where it was

    asyncio.run(run())


def test_retention_that_overtakes_us() -> None:
    async def run() -> None:
        reader = FakeReader()
        reader.create("t")
        reader.write("t", value(0))
        async with followed(reader) as found:
            await found.until(b"0")
            reader.go_away()
            reader.write("t", *map(value, range(1, 20)))
            await found.until_refused()
            reader.trim("t", 18)
            reader.is_away = False
            await found.until(b"0", b"18", b"19")
            assert found.cleared == 0

    asyncio.run(run())


def test_where_a_time_is() -> None:
    async def run() -> None:
        reader = FakeReader()
        reader.create("t")
        for second in range(10):
            reader.write("t", value(second), timestamp_ms=second * 1000)
        log_reader = cast("LogReader", reader)
        assert await offset_at(log_reader, "t", 0, 3_500) == 4
        assert await offset_at(log_reader, "t", 0, -5) == 0
        assert await offset_at(log_reader, "t", 0, 9_001) == 10

    asyncio.run(run())


def test_only_the_recent_part_of_the_heat_map_is_read() -> None:
    async def run() -> None:
        reader = FakeReader()
        reader.create("t")
        for second in range(3_600):
            reader.write("t", cell(0, 0, second // 5, 1), totals(second), timestamp_ms=second * 1000)
        reader.write_marker("t")
        start = await recent_start(cast("LogReader", reader), "t", 0)
        assert start == 2 * (3_599 - 20)
        assert min(reader.fetched) >= 7_201 - LOOK_BACK_OFFSETS

    asyncio.run(run())


def test_windows_that_are_long_need_more_of_it() -> None:
    async def run() -> None:
        reader = FakeReader()
        reader.create("t")
        log_reader = cast("LogReader", reader)
        assert await recent_start(log_reader, "t", 0) == 0
        minute = (b"0.0.0", b'{"row":0,"col":0,"start":0,"end":60000,"count":1,"speed":1.0}')
        for second in range(3_600):
            reader.write("t", minute, (b"x", b"garbage"), timestamp_ms=second * 1000)
        assert await recent_start(log_reader, "t", 0) == 2 * (3_599 - 240)

    asyncio.run(run())
