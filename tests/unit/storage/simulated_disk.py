"""A disk in memory that forgets what was not synced when the power fails.

Files are inodes with their present and their synced content; folders have present and synced names.
`lose_power` keeps what was synced and, of the rest, what a seeded choice lets through: a part of the unsynced
bytes at the end of a file, the unsynced changes of names in a folder. With `holes`, pages reach the disk in
any order, so that a stretch of that part may be zeros.

`before_each_call` sees the disk before everything that changes it: a copy of the disk made there is a machine
that stopped at this moment, so that one run of some work is enough to try a loss of power before any call.

What is begun in the background is done at once, or, with `delayed`, when somebody waits for it or when a
seeded choice lets it happen before the next task is begun; a loss of power forgets it.
"""

from __future__ import annotations

import copy
import errno
import os
import random
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from penstock.storage.disk import Disk
from tests.unit.storage.disks import at_once

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.wire.batch import Buffer


class Delayed(Future[None]):
    """Done when somebody asks for its result; tasks begun earlier are done first."""

    def __init__(self, disk: SimulatedDisk, task: Callable[[], None]) -> None:
        super().__init__()
        self.disk = disk
        self.task = task

    def result(self, timeout: float | None = None) -> None:
        while not self.done():
            self.disk.run_oldest()


class PowerFailure(BaseException):
    """The machine stops here; not an Exception, so that nothing handles it."""


@dataclass(eq=False)
class File:
    data: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    locked: bool = False


@dataclass(eq=False)
class Folder:
    names: dict[str, File | Folder] = field(default_factory=dict)
    synced: dict[str, File | Folder] = field(default_factory=dict)


def copied_tree(inode: File | Folder, copies: dict[int, File | Folder]) -> File | Folder:
    """A file with two names, a present and a synced one, is one file in the copy, too."""
    known = copies.get(id(inode))
    if known is not None:
        return known
    if isinstance(inode, File):
        copies[id(inode)] = file = File(inode.data.copy(), inode.synced, inode.locked)
        return file
    copies[id(inode)] = folder = Folder()
    folder.names = {name: copied_tree(each, copies) for name, each in inode.names.items()}
    folder.synced = {name: copied_tree(each, copies) for name, each in inode.synced.items()}
    return folder


@cache
def parts_of(path: str) -> tuple[str, ...]:
    return tuple(name for name in path.split("/") if name)


split = cache(os.path.split)
"""Whoever tries thousands of losses of power uses the same few paths again and again."""


class SimulatedDisk(Disk):
    def __init__(self, *, delayed: int | None = None, holes: bool = False) -> None:
        """`delayed` is the seed for when tasks in the background happen."""
        self.holes = holes
        self.delayed: list[Delayed] = []
        self._delay = random.Random(delayed) if delayed is not None else None
        self.delay_ends = 0.4
        self.root = Folder()
        self.calls = 0
        self.calls_left: int | None = None
        self.before_each_call: Callable[[], None] | None = None
        self._open: dict[int, File] = {}
        self._next_fd = 1000

    def in_background(self, task: Callable[[], None]) -> Future[None]:
        if self._delay is None:
            return at_once(task)
        while self.delayed and self._delay.random() < self.delay_ends:
            self.run_oldest()
        self.delayed.append(Delayed(self, task))
        return self.delayed[-1]

    def run_oldest(self) -> None:
        future = self.delayed.pop(0)
        future.task()
        future.set_result(None)

    def copy(self) -> SimulatedDisk:
        """What is on it and what of that is synced, for a machine of its own that has nothing open yet."""
        other = SimulatedDisk(holes=self.holes)
        other._delay = copy.copy(self._delay)
        other.delay_ends = self.delay_ends
        copied = copied_tree(self.root, {})
        assert isinstance(copied, Folder)
        other.root = copied
        return other

    def lose_power(self, seed: int) -> None:
        choice = random.Random(seed)
        self._open.clear()
        self.delayed.clear()
        self.calls_left = None
        self._settle(self.root, choice)

    def kill_process(self) -> None:
        """The process that uses the disk ends here; what it wrote stays, what it began does not happen."""
        for fd in list(self._open):
            self.close(fd)
        self.delayed.clear()
        self.calls_left = None

    def _settle(self, folder: Folder, choice: random.Random) -> None:
        names = dict(folder.synced)
        if choice.random() < 0.5:  # the journal got through
            names = dict(folder.names)
        folder.names = names
        folder.synced = dict(names)
        for inode in names.values():
            if isinstance(inode, Folder):
                self._settle(inode, choice)
                continue
            kept = inode.synced
            if bytes(inode.data).startswith(kept):
                kept = self._partly_written(inode, choice)
            elif choice.random() < 0.5:
                kept = bytes(inode.data)
            inode.data = bytearray(kept)
            inode.synced = kept
            inode.locked = False

    def _partly_written(self, file: File, choice: random.Random) -> bytes:
        synced = len(file.synced)
        kept = file.data[: choice.randint(synced, len(file.data))]
        if self.holes and choice.random() < 0.5:
            start = choice.randint(synced, len(kept))
            end = choice.randint(start, len(kept))
            kept[start:end] = bytes(end - start)
        return bytes(kept)

    def _change(self) -> None:
        if self.before_each_call is not None:
            self.before_each_call()
        self.calls += 1
        if self.calls_left is not None:
            if self.calls_left == 0:
                raise PowerFailure
            self.calls_left -= 1

    def _folder(self, path: str) -> Folder:
        inode: File | Folder | None = self.root
        for name in parts_of(path):
            if not isinstance(inode, Folder):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            inode = inode.names.get(name)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if not isinstance(inode, Folder):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return inode

    def _file(self, path: str) -> File:
        folder, name = split(path)
        inode = self._folder(folder).names.get(name)
        if not isinstance(inode, File):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return inode

    def open(self, path: str, *, create: bool = False) -> int:
        folder, name = split(path)
        if create and name not in self._folder(folder).names:
            self._change()
            self._folder(folder).names[name] = File()
        self._next_fd += 1
        self._open[self._next_fd] = self._file(path)
        return self._next_fd

    def create(self, path: str) -> int:
        if self.exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        return self.open(path, create=True)

    def close(self, fd: int) -> None:
        self._open.pop(fd).locked = False

    def pread(self, fd: int, size: int, position: int) -> bytes:
        return bytes(self._open[fd].data[position : position + size])

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        self._change()
        data = b"".join(buffers)
        file = self._open[fd]
        assert position <= len(file.data), "no holes"
        file.data[position : position + len(data)] = data
        return len(data)

    def fdatasync(self, fd: int) -> None:
        self._change()
        self._open[fd].synced = bytes(self._open[fd].data)

    def ftruncate(self, fd: int, size: int) -> None:
        self._change()
        del self._open[fd].data[size:]

    def size(self, path: str) -> int:
        return len(self._file(path).data)

    def exists(self, path: str) -> bool:
        folder, name = split(path)
        try:
            return name in self._folder(folder).names
        except OSError:
            return False

    def is_folder(self, path: str) -> bool:
        try:
            self._folder(path)
        except OSError:
            return False
        return True

    def rename(self, source: str, target: str) -> None:
        self._change()
        folder, name = split(source)
        inode = self._folder(folder).names.pop(name)
        folder, name = split(target)
        self._folder(folder).names[name] = inode

    def unlink(self, path: str) -> None:
        self._file(path)
        self._change()
        folder, name = split(path)
        del self._folder(folder).names[name]

    def mkdir(self, path: str) -> None:
        self._change()
        folder, name = split(path)
        self._folder(folder).names[name] = Folder()

    def makedirs(self, path: str) -> None:
        folder = self.root
        for name in path.strip("/").split("/"):
            inode = folder.names.setdefault(name, Folder())
            assert isinstance(inode, Folder)
            folder.synced.setdefault(name, inode)
            folder = inode

    def rmdir(self, path: str) -> None:
        self._change()
        folder, name = split(path)
        del self._folder(folder).names[name]

    def listdir(self, path: str) -> list[str]:
        return list(self._folder(path).names)

    def fsync_dir(self, path: str) -> None:
        self._change()
        folder = self._folder(path)
        folder.synced = dict(folder.names)

    def read_file(self, path: str) -> bytes:
        return bytes(self._file(path).data)

    def lock(self, fd: int) -> bool:
        file = self._open[fd]
        if file.locked:
            return False
        file.locked = True
        return True
