"""The event loop of one simulated process: what runs on asyncio in a broker runs unchanged in a seeded world.

Time is the world's. A process that dies leaves its tasks where they were, for ever; one that is stopped goes
on later with all that came meanwhile. A task that ends with an error that nobody expects is a failure of the
history, whoever might have waited for it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from penstock.peers.connection import PeerError
from penstock.storage import StorageError
from penstock.types import ApiError

if TYPE_CHECKING:
    from contextvars import Context

    from tests.sim.transaction_history import TransactionWorld

EXPECTED = (ApiError, PeerError, StorageError)
"""How a task may end: somebody is told, or it is tried again."""


class ProcessLoop(asyncio.AbstractEventLoop):
    def __init__(self, world: TransactionWorld) -> None:
        self.world = world
        world.loops.append(self)
        self.is_up = True
        self.is_paused = False
        self._backlog: list[asyncio.Handle] = []

    # Life and death

    def die(self) -> None:
        self.is_up = False
        self._backlog.clear()
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False
            coroutine = task.get_coro()
            if isinstance(coroutine, Coroutine) and not task.done():
                coroutine.close()

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        backlog, self._backlog = self._backlog, []
        for handle in backlog:
            self._run(handle)

    def _run(self, handle: asyncio.Handle) -> None:
        if not self.is_up or handle.cancelled():
            return
        if self.is_paused:
            self._backlog.append(handle)
            return
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            handle._run()
        finally:
            asyncio._set_running_loop(before)

    # What asyncio needs of a loop

    def time(self) -> float:
        return self.world.now_ms / 1000

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if self.is_up:
            self.world.after(0, lambda: self._run(handle))
        return handle

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if self.is_up:
            self.world.after(math.ceil(when * 1000 - self.world.now_ms - 1e-6), lambda: self._run(handle))
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when its time comes."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        task.add_done_callback(_check)
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if self.is_up and error is not None and not isinstance(error, EXPECTED):
            raise error


def _check(task: asyncio.Task[Any]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, EXPECTED):
        raise error
