"""Who carries out a flush job: the event loop what only copies, threads what waits for a disk."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

from penstock.broker import writers as writers_module
from penstock.broker.writers import WriterThreads

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    import pytest

    from penstock.storage import FlushJob


class FakeJob:
    def __init__(self, work: Callable[[], None] = lambda: None, *, is_plain: bool = False) -> None:
        self.name = "t-0"
        self.is_plain = is_plain
        self.size = 100
        self.thread: threading.Thread | None = None
        self._work = work

    def run(self) -> None:
        self.thread = threading.current_thread()
        self._work()


class Recorder:
    def __init__(self) -> None:
        self.jobs: list[FlushJob] = []
        self.changed = asyncio.Event()

    def __call__(self, job: FlushJob) -> None:
        assert threading.current_thread() is threading.main_thread()
        self.jobs.append(job)
        self.changed.set()

    async def wait(self, count: int) -> None:
        while len(self.jobs) < count:
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), 10)


def run(scenario: Callable[[WriterThreads, Recorder], Coroutine[object, object, None]]) -> None:
    async def whole() -> None:
        writers = WriterThreads(asyncio.get_running_loop(), count=2)
        try:
            await scenario(writers, Recorder())
        finally:
            writers.close()

    asyncio.run(whole())


def test_a_job_that_syncs_runs_in_a_thread_and_is_delivered_on_the_loop() -> None:
    async def scenario(writers: WriterThreads, done: Recorder) -> None:
        jobs = [FakeJob() for _ in range(50)]
        for job in jobs:
            writers.submit(job, done)  # type: ignore[arg-type]
        assert done.jobs == []
        await done.wait(50)
        assert set(map(id, done.jobs)) == set(map(id, jobs))
        assert all(job.thread is not threading.main_thread() for job in jobs)

    run(scenario)


def test_a_plain_job_is_done_at_once() -> None:
    async def scenario(writers: WriterThreads, done: Recorder) -> None:
        job = FakeJob(is_plain=True)
        writers.submit(job, done)  # type: ignore[arg-type]
        assert done.jobs == [job]
        assert job.thread is threading.main_thread()

    run(scenario)


def test_after_a_slow_plain_job_threads_do_them_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(writers: WriterThreads, done: Recorder) -> None:
        slow = FakeJob(lambda: time.sleep(writers_module.PLAIN_WRITE_S_MAX * 1.5), is_plain=True)
        writers.submit(slow, done)  # type: ignore[arg-type]
        after = FakeJob(is_plain=True)
        writers.submit(after, done)  # type: ignore[arg-type]
        await done.wait(2)
        assert after.thread is not threading.main_thread()
        monkeypatch.setattr(writers, "_threads_only_until", 0.0)
        later = FakeJob(is_plain=True)
        writers.submit(later, done)  # type: ignore[arg-type]
        assert later.thread is threading.main_thread()

    run(scenario)


def test_one_failing_delivery_does_not_hold_back_the_others() -> None:
    async def scenario(writers: WriterThreads, done: Recorder) -> None:
        def fail(_job: FlushJob) -> None:
            raise ZeroDivisionError

        gate = threading.Event()
        for _ in range(2):
            writers.submit(FakeJob(gate.wait), fail)  # type: ignore[arg-type]
        for _ in range(3):
            writers.submit(FakeJob(), done)  # type: ignore[arg-type]
        gate.set()
        await done.wait(3)

    run(scenario)
