"""Disks that fail on purpose."""

from __future__ import annotations

import errno
import os
from concurrent.futures import Future
from typing import TYPE_CHECKING

from penstock.storage.disk import Disk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.wire.batch import Buffer


def at_once(task: Callable[[], None]) -> Future[None]:
    """What `in_background` gives, done in the foreground: each run of a test is then the same."""
    future: Future[None] = Future()
    try:
        task()
    except OSError as error:
        future.set_exception(error)
    else:
        future.set_result(None)
    return future


class QuickDisk(Disk):
    """Does not sync: these tests stop processes, not machines (see simulated_disk.py for those)."""

    def fdatasync(self, fd: int) -> None:
        """Nothing."""

    def fsync_dir(self, path: str) -> None:
        """Nothing."""

    def in_background(self, task: Callable[[], None]) -> Future[None]:
        return at_once(task)


class FullDisk(QuickDisk):
    """Has room for so many more bytes; writes that do not fit are cut short first, as the system does."""

    def __init__(self) -> None:
        self.room: int | None = None

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        if self.room is None:
            return super().pwritev(fd, buffers, position)
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        data = b"".join(buffers)[: self.room]
        written = super().pwritev(fd, [data], position)
        self.room -= written
        return written


class ShortDisk(QuickDisk):
    """Writes at most so many bytes at once."""

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        return super().pwritev(fd, [b"".join(buffers)[: self.size_max]], position)


class SyncFails(Disk):
    """Fails every sync while `failing` is set."""

    failing = False

    def fdatasync(self, fd: int) -> None:
        if self.failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().fdatasync(fd)


class CrashError(BaseException):
    """The process stops here; not an Exception, so that nothing handles it."""


class CrashingDisk(QuickDisk):
    """Stops the process, as it were, before the n-th change of the disk."""

    def __init__(self) -> None:
        self.changes_left: int | None = None
        self.changes = 0

    def _change(self) -> None:
        self.changes += 1
        if self.changes_left is not None:
            if self.changes_left == 0:
                raise CrashError
            self.changes_left -= 1

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        self._change()
        return super().pwritev(fd, buffers, position)

    def ftruncate(self, fd: int, size: int) -> None:
        self._change()
        super().ftruncate(fd, size)

    def rename(self, source: str, target: str) -> None:
        self._change()
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self._change()
        super().unlink(path)

    def open(self, path: str, *, create: bool = False) -> int:
        if create and not os.path.exists(path):
            self._change()
        return super().open(path, create=create)

    def create(self, path: str) -> int:
        self._change()
        return super().create(path)
