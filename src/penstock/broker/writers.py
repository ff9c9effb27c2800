"""Threads that carry out flush jobs, so that the event loop does not wait for a disk.

`fsync` always waits for it, and `write` does when too many pages are dirty; both let go of the GIL. A log has
at most one job in flight, and what is appended meanwhile goes into its next one: that is the group commit.

Under `flush=os` most jobs only copy bytes into the page cache. Handing those to a thread costs more than
doing them: two changes of threads, and the bytes leave the cache of the processor that has just received
them. So they are done at once, until one takes suspiciously long; then threads do them for a while.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from penstock.storage import FlushJob

log = logging.getLogger(__name__)

WRITER_THREADS: Final = 4
WRITER_THREADS_MAX: Final = 32
PLAIN_WRITE_S_MAX: Final = 0.02
PLAIN_WRITE_S_PER_BYTE_MAX: Final = 10e-9
"""A megabyte takes half a millisecond, or four into memory that a virtual machine has not touched before."""
THREADS_ONLY_S: Final = 2.0
CLOSE_S_MAX: Final = 5.0

Done = Callable[[FlushJob], None]


class WriterThreads:
    def __init__(self, loop: asyncio.AbstractEventLoop, count: int = WRITER_THREADS) -> None:
        self._loop = loop
        self._jobs: queue.SimpleQueue[tuple[FlushJob, Done] | None] = queue.SimpleQueue()
        self._done: deque[tuple[FlushJob, Done]] = deque()
        self._wake_up_is_due = False
        self._threads_only_until = 0.0
        self._threads: list[threading.Thread] = []
        for _ in range(count):
            self._add_thread()

    def _add_thread(self) -> None:
        name = f"writer-{len(self._threads)}"
        self._threads.append(threading.Thread(target=self._work, name=name, daemon=True))
        self._threads[-1].start()

    def replace_one(self) -> None:
        """A job hangs, and its thread with it: the other logs should not have one less for that."""
        if len(self._threads) < WRITER_THREADS_MAX:
            self._add_thread()

    def submit(self, job: FlushJob, done: Done) -> None:
        """Run the job, then call `done` on the event loop; perhaps both before this returns."""
        began = self._loop.time()
        if not job.is_plain or began < self._threads_only_until:
            self._jobs.put((job, done))
            return
        job.run()
        ended = self._loop.time()
        if ended - began > PLAIN_WRITE_S_MAX + job.size * PLAIN_WRITE_S_PER_BYTE_MAX:
            self._threads_only_until = ended + THREADS_ONLY_S
        done(job)

    def close(self) -> None:
        """Those that hang end with the process."""
        for _ in self._threads:
            self._jobs.put(None)
        deadline = time.monotonic() + CLOSE_S_MAX
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            item[0].run()
            self._done.append(item)
            # One wake-up of the event loop delivers all jobs that are done by then. The flag is cleared
            # before the deque is drained, so a job that comes after the draining wakes it again.
            if not self._wake_up_is_due:
                self._wake_up_is_due = True
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._wake_up_is_due = False
        while self._done:
            job, done = self._done.popleft()
            try:
                done(job)
            except Exception:
                # One log's trouble must not hold back the acknowledgements of the others.
                log.exception("after a flush of %s", job.name)
