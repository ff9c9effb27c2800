"""A bounded set of open files over all logs of a node.

Files are opened on demand and the one unused for longest is closed when there are too many. A file that is
being used, in particular by a writer thread, is pinned and stays open; pins may exceed the bound for that
time. This is the only state that the owner's thread and the writer threads share, hence the lock.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.storage.disk import Disk


class OpenFile:
    __slots__ = ("fd", "forgotten", "path", "pins")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd
        self.pins = 0
        self.forgotten = False


class Descriptors:
    def __init__(self, disk: Disk, open_files_max: int) -> None:
        self.open_files_max = open_files_max
        self.disk = disk
        self._files: OrderedDict[str, OpenFile] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._files)

    def pin(self, path: str, *, create: bool = False) -> OpenFile:
        """The file, open until it is unpinned."""
        with self._lock:
            file = self._files.get(path)
            if file is None:
                self._make_room()
                file = self._files[path] = OpenFile(path, self.disk.open(path, create=create))
            else:
                self._files.move_to_end(path)
            file.pins += 1
            return file

    def unpin(self, file: OpenFile) -> None:
        with self._lock:
            file.pins -= 1
            if file.forgotten and not file.pins:
                self.disk.close(file.fd)

    def forget(self, path: str) -> None:
        """The path will be removed or replaced: do not hand out its descriptor again."""
        with self._lock:
            file = self._files.pop(path, None)
            if file is None:
                return
            file.forgotten = True
            if not file.pins:
                self.disk.close(file.fd)

    def pread(self, path: str, size: int, position: int) -> bytes:
        file = self.pin(path)
        try:
            return self.disk.pread(file.fd, size, position)
        finally:
            self.unpin(file)

    def pread_uncached(self, path: str, size: int, position: int) -> bytes:
        """What the disk says, and not what the system remembers of it."""
        file = self.pin(path)
        try:
            self.disk.forget_cached(file.fd, size, position)
            return self.disk.pread(file.fd, size, position)
        finally:
            self.unpin(file)

    def sync(self, path: str) -> None:
        file = self.pin(path)
        try:
            self.disk.fdatasync(file.fd)
        finally:
            self.unpin(file)

    def close(self) -> None:
        for path in list(self._files):
            self.forget(path)

    def _make_room(self) -> None:
        if len(self._files) < self.open_files_max:
            return
        for path, file in self._files.items():
            if not file.pins:
                del self._files[path]
                self.disk.close(file.fd)
                return
