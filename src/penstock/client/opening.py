"""Opening and closing a transport from coroutines: both wait for the network, so both are done in threads."""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from penstock.client.errors import ClosedError, PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable


class Closable(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=Closable)


class Opening(Generic[T]):
    """A transport that is made once, by whoever needs it first; the others wait for the same one.

    A coroutine that is cancelled while it waits does not take the transport away from the others.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._task: asyncio.Task[T] | None = None
        self._closed = False
        self._finalizer: weakref.finalize[..., Opening[T]] | None = None

    @property
    def opened(self) -> T:
        """The transport, if it is there."""
        if self._closed or self._task is None or not self._task.done() or _failed(self._task):
            raise ClosedError("it is not open: use `async with`, or await its open()")
        return self._task.result()

    async def open(self) -> T:
        if self._closed:
            raise ClosedError("it is closed")
        if self._task is None or _failed(self._task):
            self._task = asyncio.create_task(self._open())
        return await asyncio.shield(self._task)

    async def close(self) -> None:
        self._closed = True
        if self._task is not None:
            try:
                await asyncio.shield(self._task)
            except PenstockError:
                return  # it never opened, as whoever opened it was told
            assert self._finalizer is not None
            await asyncio.to_thread(self._finalizer)

    async def _open(self) -> T:
        transport = await asyncio.to_thread(self._make)
        self._finalizer = weakref.finalize(self, transport.close)  # also for those who forget
        return transport


def _failed(task: asyncio.Task[T]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
