"""The small parts of the queue that stand alone."""

from __future__ import annotations

import asyncio
from collections import deque

import pytest

from penstock.gateway.errors import ApiFailure
from penstock.gateway.queue.fresh import Fresh
from penstock.gateway.queue.keyed_locks import KeyedLocks
from penstock.gateway.queue.produce_index import RequestIndex
from penstock.gateway.queue.read_ahead import GOOD_S, ReadAhead, RunKey
from penstock.gateway.queue.topics import check_usable
from penstock.kafka.records import Fetched, ReadRecord

KEY = RunKey(1, "id", 0)


def fetched(*offsets: int, end: int | None = None, value: bytes = b"v") -> Fetched:
    records = [ReadRecord(0, offset, 0, None, value) for offset in offsets]
    return Fetched(records, end if end is not None else offsets[-1] + 1, 100, 0)


def test_what_was_read_ahead_is_found_once_the_consumer_is_there() -> None:
    ahead = ReadAhead(10_000)
    ahead.put(KEY, 3, fetched(5, 6, 9, end=12), now=0)
    found = [ahead.next(KEY, position, now=1) for position in (3, 6, 7)]
    assert [record.offset if record else None for record in found] == [5, 6, 9]
    assert ahead.next(KEY, 10, now=1) is None, "all up to 12 is known to be empty, but more may have come"
    assert len(ahead) == 0


@pytest.mark.parametrize(("position", "now"), [(2, 1.0), (12, 1.0), (5, GOOD_S + 0.1)])
def test_what_does_not_cover_the_position_or_is_too_old_is_not_used(position: int, now: float) -> None:
    ahead = ReadAhead(10_000)
    ahead.put(KEY, 3, fetched(5, 6, end=12), now=0)
    assert ahead.next(KEY, position, now) is None


def test_reading_ahead_has_a_bound_for_all_together() -> None:
    ahead = ReadAhead(10_000)
    for consumer in range(50):
        ahead.put(RunKey(consumer, "id", 0), 0, fetched(0, value=b"x" * 1_000), now=0)
    assert 0 < len(ahead) <= 10
    assert ahead.next(RunKey(49, "id", 0), 0, now=0) is not None
    assert ahead.next(RunKey(0, "id", 0), 0, now=0) is None


def test_the_first_offset_of_a_request_counts() -> None:
    index = RequestIndex(100)
    assert index.add(b"r", 5) == 5
    assert index.add(b"r", 9) == 5
    assert index.get(b"r") == 5
    assert index.get(b"s") is None


def test_old_requests_leave_the_index() -> None:
    index = RequestIndex(10)
    for offset in range(100):
        index.add(b"%d" % offset, offset)
    assert len(index) == 10
    assert index.get(b"90") == 90
    assert index.get(b"89") is None


def test_an_answer_is_shared_and_never_older_than_the_question() -> None:
    asked: deque[asyncio.Future[int]] = deque()

    async def ask() -> int:
        future = asyncio.get_running_loop().create_future()
        asked.append(future)
        return int(await future)

    async def run() -> None:
        fresh = Fresh(ask)
        first = asyncio.create_task(fresh.get())
        await turn()
        late = [asyncio.create_task(fresh.get()) for _ in range(3)]
        await turn()
        assert len(asked) == 1, "those that came later wait for the next question"
        asked.popleft().set_result(1)
        await turn()
        assert await first == 1
        assert not any(task.done() for task in late)
        asked.popleft().set_result(2)
        assert await asyncio.gather(*late) == [2, 2, 2]
        assert not asked

    asyncio.run(run())


def test_a_question_that_failed_is_asked_again() -> None:
    answers = iter([OSError("no"), 7])

    async def ask() -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def run() -> None:
        fresh = Fresh(ask)
        with pytest.raises(OSError, match="no"):
            await fresh.get()
        assert await fresh.get() == 7

    asyncio.run(run())


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_locks_exclude_per_key_and_leave_nothing_behind() -> None:
    async def run() -> None:
        locks = KeyedLocks()
        inside: list[int] = []

        async def work(key: int) -> None:
            async with locks.hold(key):
                assert key not in inside
                inside.append(key)
                await turn()
                inside.remove(key)

        await asyncio.gather(*(work(i % 3) for i in range(12)))
        assert len(locks) == 0

    asyncio.run(run())


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ü", "a" * 250, "__penstock_ids", "__x"])
def test_names_that_are_not_for_topics(name: str) -> None:
    with pytest.raises(ApiFailure):
        check_usable(name)


@pytest.mark.parametrize("name", ["a", "_a", "A.b-c_9", "a" * 249])
def test_names_for_topics(name: str) -> None:
    check_usable(name)
