"""Tasks that end together, readers that take nothing, and windows."""

from __future__ import annotations

import asyncio

import pytest

from penstock.gateway.kafka.errors import (
    InvalidRequestError,
    KafkaUnavailableError,
    OffsetOutOfRangeError,
    TopicRecreatedError,
    UnknownTopicError,
)
from penstock.gateway.streams.closing import REASON_BYTES_MAX, closing_of, fitting
from penstock.gateway.streams.following import Outflow, StalledError, first_to_end
from penstock.gateway.streams.window import Window


def test_the_first_to_end_ends_all() -> None:
    ended: list[str] = []

    async def forever(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("it")

    async def run() -> None:
        with pytest.raises(ValueError, match="it"):
            await first_to_end(forever("a"), fails(), forever("b"))
        assert sorted(ended) == ["a", "b"]
        await first_to_end(forever("c"), asyncio.sleep(0))
        assert ended[-1] == "c"

    asyncio.run(run())


def test_whoever_waits_for_them_can_be_cancelled() -> None:
    ended = asyncio.Event()

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def run() -> None:
        waiting = asyncio.create_task(first_to_end(forever()))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert ended.is_set()

    asyncio.run(run())


def test_a_reader_that_takes_nothing_is_noticed_and_one_that_is_slow_is_not() -> None:
    async def run() -> None:
        outflow = Outflow(0.1)

        async def slow() -> None:
            for _ in range(20):
                await outflow.send(asyncio.sleep(0.02))

        await first_to_end(slow(), outflow.watch())
        with pytest.raises(StalledError, match=r"nothing was taken for 0\.1 s"):
            await first_to_end(outflow.send(asyncio.sleep(30)), outflow.watch())

    asyncio.run(run())


def test_nobody_stalls_who_has_nothing_to_take() -> None:
    async def run() -> None:
        outflow = Outflow(0.02)
        await first_to_end(asyncio.sleep(0.1), outflow.watch())

    asyncio.run(run())


def test_a_window_lets_through_what_fits_and_what_never_would_alone() -> None:
    async def run() -> None:
        window = Window(2, 100)
        await window.take(60)
        await window.take(40)
        third = asyncio.create_task(window.take(1))
        await asyncio.sleep(0)
        assert not third.done()
        window.release(60)
        await third
        large = asyncio.create_task(window.take(1_000))
        await asyncio.sleep(0)
        assert not large.done()
        window.release(40)
        window.release(1)
        await large

    asyncio.run(run())


def test_reasons_fit_into_a_close_frame() -> None:
    assert fitting("short") == "short"
    for text in ("x" * 500, "ü" * 500):
        assert len(fitting(text).encode()) <= REASON_BYTES_MAX


def test_codes() -> None:
    codes = {
        StalledError("s"): 1013,
        KafkaUnavailableError("u"): 1013,
        UnknownTopicError("t"): 4404,
        TopicRecreatedError("t", 0, 5, 0, 1): 4409,
        OffsetOutOfRangeError("t", 0, 5, 0, 1): 4416,
        InvalidRequestError("i"): 1011,
    }
    assert {error: closing_of(error).code for error in codes} == codes
