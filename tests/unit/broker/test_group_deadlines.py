from __future__ import annotations

import asyncio

from penstock.broker.group_deadlines import Deadlines


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
