"""The shared end of a log: what followers find there, and what they learn when it fails."""

from __future__ import annotations

import asyncio

import pytest

from penstock.gateway.kafka.errors import OffsetOutOfRangeError, TopicRecreatedError
from penstock.gateway.kafka.tail import Chunks, Tail
from penstock.kafka.records import RECORD_OVERHEAD, Fetched, ReadRecord


def fetched(first: int, count: int) -> Fetched:
    records = [ReadRecord(0, first + place, 0, None, b"v") for place in range(count)]
    return Fetched(records, first + count, first + count, 0)


def offsets(found: tuple[list[ReadRecord], int] | None) -> list[int] | None:
    return None if found is None else [record.offset for record in found[0]]


def test_chunks_are_found_by_offset() -> None:
    chunks = Chunks(10_000)
    chunks.add(10, fetched(10, 3))
    chunks.add(13, fetched(13, 2))
    assert offsets(chunks.after(10)) == [10, 11, 12]
    assert offsets(chunks.after(12)) == [12]
    assert chunks.after(12) == (fetched(12, 1).records, 13)
    assert offsets(chunks.after(14)) == [14]
    assert chunks.after(9) is None
    assert chunks.after(15) is None


def test_a_chunk_without_records_still_moves_readers_on() -> None:
    chunks = Chunks(10_000)
    chunks.add(10, Fetched([], 12, 12, 0))
    assert chunks.after(10) == ([], 12)


def test_old_chunks_go_and_the_newest_stays() -> None:
    chunks = Chunks(3 * (RECORD_OVERHEAD + 1))
    for first in (0, 2, 4):
        chunks.add(first, fetched(first, 2))
    assert chunks.after(0) is None
    assert chunks.after(2) is None
    assert offsets(chunks.after(4)) == [4, 5]
    chunks.add(6, fetched(6, 100))
    assert len(offsets(chunks.after(6)) or ()) == 100
    assert chunks.after(4) is None


class Source:
    """What a tail polls: answers as a test gives them."""

    def __init__(self) -> None:
        self.polls: list[int] = []
        self.answers: asyncio.Queue[Fetched | Exception] = asyncio.Queue()

    async def poll(self, offset: int) -> Fetched:
        self.polls.append(offset)
        answer = await self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_one_poll_wakes_all_followers_and_a_cancelled_one_disturbs_nobody() -> None:
    async def run() -> None:
        source = Source()
        tail = Tail(source.poll, 10_000)
        tail.start(5)
        tail.start(9)  # it runs
        waiting = [asyncio.create_task(tail.wait()) for _ in range(100)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        source.answers.put_nowait(fetched(5, 2))
        await asyncio.gather(*waiting[1:])
        assert offsets(tail.chunks.after(5)) == [5, 6]
        assert tail.position == 7
        await asyncio.sleep(0)
        assert source.polls == [5, 7]
        tail.stop()

    asyncio.run(run())


def test_a_failure_reaches_each_follower_as_its_own_exception() -> None:
    async def run() -> list[BaseException | None]:
        source = Source()
        tail = Tail(source.poll, 10_000)
        tail.start(0)
        waiting = [asyncio.create_task(tail.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        source.answers.put_nowait(TopicRecreatedError("t", 0, 5, 0, 3))
        await asyncio.wait(waiting)
        assert tail.has_failed
        with pytest.raises(TopicRecreatedError):
            await tail.wait()
        return [task.exception() for task in waiting]

    errors = asyncio.run(run())
    assert len({id(error) for error in errors}) == 3
    assert all(isinstance(error, OffsetOutOfRangeError) and error.end == 3 for error in errors)
