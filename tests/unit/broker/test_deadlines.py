from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.broker.deadlines import Deadlines

if TYPE_CHECKING:
    import pytest


def test_keys_are_asked_in_order_and_moved_deadlines_only_once() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        asked: list[str] = []
        done = asyncio.Event()

        def on_due(key: str) -> None:
            asked.append(key)
            if key == "last":
                done.set()

        deadlines: Deadlines[str] = Deadlines(lambda: int((loop.time() - start) * 1000), on_due)
        deadlines.set("last", 60)
        deadlines.set("second", 40)
        deadlines.set("first", 20)
        deadlines.set("first", 50)  # later: it is asked at 20 all the same, and may set the later one then
        deadlines.set("moved", 55)
        deadlines.set("moved", 10)  # earlier
        deadlines.set("gone", 30)
        deadlines.set("gone", None)
        await asyncio.wait_for(done.wait(), 10)
        assert asked == ["moved", "first", "second", "last"]

    asyncio.run(scenario())


def test_the_clock_goes_on_after_a_fault_of_one_owner(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        asked: list[str] = []
        done = asyncio.Event()
        now_ms = 10

        def on_due(key: str) -> None:
            asked.append(key)
            if key == "bad":
                raise ValueError("wrong")
            if key == "last":
                done.set()

        deadlines: Deadlines[str] = Deadlines(lambda: now_ms, on_due)
        deadlines.set("bad", 0)
        deadlines.set("good", 1)
        deadlines.set("last", 20)
        await asyncio.sleep(0.001)
        now_ms = 30
        await asyncio.wait_for(done.wait(), 10)
        assert asked == ["bad", "good", "last"]

    asyncio.run(scenario())
    assert caplog.messages == ["a deadline could not be kept"]


def test_groups_that_come_and_go_leave_no_entries_behind() -> None:
    async def scenario() -> None:
        deadlines: Deadlines[str] = Deadlines(lambda: 0, lambda _: None)
        for number in range(10_000):
            deadlines.set("group", 1_000_000 + number)
            deadlines.set("group", None)
        assert len(deadlines) < 200
        deadlines.close()
        assert len(deadlines) == 0

    asyncio.run(scenario())


def test_nothing_is_asked_after_close() -> None:
    async def scenario() -> None:
        asked: list[str] = []
        deadlines: Deadlines[str] = Deadlines(lambda: 0, asked.append)
        deadlines.set("a", 0)
        deadlines.close()
        for _ in range(5):
            await asyncio.sleep(0)
        assert asked == []

    asyncio.run(scenario())
