"""Readers of the heat map: woken once per change, and never queued for."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from penstock.gateway.traffic.feed import HeatFeed
from penstock.gateway.traffic.metrics import seconds_behind
from penstock.traffic.grid import DEFAULT_GRID
from tests.unit.gateway.traffic.records import cell, read, totals


def told(written: bytes) -> list[dict[str, Any]]:
    return [orjson.loads(each.removeprefix(b"data: ")) for each in written.split(b"\n\n") if each]


def counts(written: bytes) -> list[list[int]]:
    return [[each["count"] for each in event["cells"]] for event in told(written)]


def test_a_reader_waits_for_the_end_of_a_batch() -> None:
    async def run() -> None:
        feed = HeatFeed(1_000, DEFAULT_GRID)
        written, number = feed.recent()
        assert written == b""
        waiting = asyncio.create_task(feed.changes(number))
        feed.apply(read([cell(0, 0, 1, 1)]))
        await asyncio.sleep(0)
        assert not waiting.done()
        feed.apply(read([totals(1)]))
        written, number = await waiting
        assert counts(written) == [[1]]
        # Several batches at once are one change.
        feed.apply(read([cell(0, 0, 1, 2), totals(2), cell(0, 0, 1, 3), totals(3)]))
        written, number = await feed.changes(number)
        assert counts(written) == [[3]]
        assert number == feed.map.number

    asyncio.run(run())


def test_a_slow_reader_gets_all_changes_as_one() -> None:
    async def run() -> None:
        feed = HeatFeed(1_000, DEFAULT_GRID)
        feed.apply(read([cell(0, 0, 1, 1), cell(0, 1, 1, 1), totals(1)]))
        _, number = feed.recent()
        for count in range(2, 1_000):
            feed.apply(read([cell(0, 0, 1, count), cell(count % 40, 2, 2, count), totals(count)]))
        written, number = await feed.changes(number)
        assert [event["window"]["start"] for event in told(written)] == [5_000, 10_000]
        assert counts(written)[0] == [999]
        assert len(counts(written)[1]) == 40
        assert number == feed.map.number

    asyncio.run(run())


def test_a_map_that_is_gone_is_another_life() -> None:
    async def run() -> None:
        feed = HeatFeed(1_000, DEFAULT_GRID)
        feed.apply(read([cell(0, 0, 1, 1), totals(1)]))
        life, (_, number) = feed.life, feed.recent()
        waiting = asyncio.create_task(feed.changes(number))
        await asyncio.sleep(0)
        feed.clear()
        await waiting
        assert feed.life != life
        assert feed.recent()[0] == b""
        # Who was told nothing has nothing to forget.
        life = feed.life
        feed.apply(read([cell(0, 0, 1, 1)]))
        feed.clear()
        assert feed.life == life

    asyncio.run(run())


def test_how_far_behind() -> None:
    feed = HeatFeed(1_000, DEFAULT_GRID)
    assert str(seconds_behind(feed, 100.0)) == "nan"
    feed.apply(read([totals(1, newest=98_500)]))
    assert seconds_behind(feed, 100.0) == 1.5
