"""Every system call that storage makes on files, in one small class.

The rest of the package knows paths and descriptors and nothing of `os`, so a simulated disk that tears,
loses or refuses writes can take this one's place. Methods raise OSError as the calls do.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.wire.batch import Buffer


IOV_MAX = 1024
FOLDER_MODE = 0o700
FILE_MODE = 0o600


class Disk:
    _background: ThreadPoolExecutor | None = None
    _background_lock = threading.Lock()

    def open(self, path: str, *, create: bool = False) -> int:
        """A descriptor to read and write at positions."""
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), FILE_MODE)

    def create(self, path: str) -> int:
        """The same for a new file; fails if there is one."""
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_CREAT | os.O_EXCL, FILE_MODE)

    def close(self, fd: int) -> None:
        os.close(fd)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        data = os.pread(fd, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        got = len(data)
        while got < size and (data := os.pread(fd, size - got, position + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def forget_cached(self, fd: int, size: int, position: int) -> None:
        """Let the next read of these bytes come from the disk itself, where the system knows how."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(fd, position, size, os.POSIX_FADV_DONTNEED)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        """Bytes written, which may be fewer than given; at most IOV_MAX buffers."""
        return os.pwritev(fd, buffers, position)

    def fdatasync(self, fd: int) -> None:
        os.fdatasync(fd)

    def ftruncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(path)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def unlink_if_there(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.unlink(path)

    def mkdir(self, path: str) -> None:
        os.mkdir(path, FOLDER_MODE)

    def makedirs(self, path: str) -> None:
        os.makedirs(path, FOLDER_MODE, exist_ok=True)

    def rmdir(self, path: str) -> None:
        os.rmdir(path)

    def listdir(self, path: str) -> list[str]:
        return os.listdir(path)

    def fsync_dir(self, path: str) -> None:
        """Make creations, renames and removals in the folder durable."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def read_file(self, path: str) -> bytes:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            parts = []
            while data := os.read(fd, 1 << 20):
                parts.append(data)
                if len(data) < 1 << 20:
                    break
            return b"".join(parts)
        finally:
            os.close(fd)

    def in_background(self, task: Callable[[], None]) -> Future[None]:
        """Begin `task` in a thread of its own kind; tasks run one after the other, in their order."""
        with self._background_lock:
            if self._background is None:
                self._background = ThreadPoolExecutor(1, thread_name_prefix="storage")
            return self._background.submit(task)

    def end_background(self) -> None:
        """Wait for what is under way in the background and end its thread."""
        with self._background_lock:
            background, self._background = self._background, None
        if background is not None:
            background.shutdown()

    def lock(self, fd: int) -> bool:
        """Whether this process now holds the exclusive lock on the file; it ends with the descriptor."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return False
            raise
        return True


def write_all(disk: Disk, fd: int, buffers: list[Buffer], position: int) -> int:
    """Write all buffers from `position` on, in few calls, and return the position after them.

    A short write is followed by another try, so that the call that follows it says why (ENOSPC, EIO).
    """
    start = 0
    while start < len(buffers):
        chunk = buffers[start : start + IOV_MAX]
        expected = sum(map(len, chunk))
        written = disk.pwritev(fd, chunk, position)
        position += written
        while written < expected:
            if written == 0:
                raise OSError(errno.EIO, "a write made no progress")
            while written >= len(chunk[0]):
                written -= len(chunk[0])
                expected -= len(chunk[0])
                del chunk[0]
            chunk[0] = memoryview(chunk[0])[written:]
            expected -= written
            written = disk.pwritev(fd, chunk, position)
            position += written
        start += IOV_MAX
    return position


def write_atomically(disk: Disk, path: str, data: bytes) -> None:
    """Replace a small file so that a crash leaves either the old or the new content, never a mixture.

    The rename is durable once the folder is synced, which is left to the caller (`fsync_dir`).
    """
    temporary = f"{path}.tmp"
    fd = disk.open(temporary, create=True)
    try:
        disk.ftruncate(fd, 0)
        write_all(disk, fd, [data], 0)
        disk.fdatasync(fd)
    finally:
        disk.close(fd)
    disk.rename(temporary, path)
