"""What one log has under way in the background of its disk, and whether that went well.

The writer thread begins tasks, the owner's thread waits for them, hence the lock. A task speaks for bytes
that earlier ones synced, so the first failure is the last word: tasks behind it do not run, and `check` and
`settle` raise it for the rest of the log's life, whoever else has met it before.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from penstock.storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from penstock.storage.disk import Disk


class Background:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._lock = threading.Lock()
        self._under_way: list[Future[None]] = []
        self._failure: Exception | None = None

    def begin(self, task: Callable[[], None]) -> None:
        def run() -> None:
            if self._failure is not None:
                return
            try:
                task()
            except Exception as error:
                # Kept whatever it is: nobody looks at the future of a task.
                self._failure = error

        with self._lock:
            self._under_way = [other for other in self._under_way if not other.done()]
            self._under_way.append(self._disk.in_background(run))

    def check(self) -> None:
        """Raise what has gone wrong so far."""
        failure = self._failure
        if isinstance(failure, OSError):  # a new one each time: a raised one keeps its callers alive
            raise OSError(failure.errno, failure.strerror) from failure
        if failure is not None:
            raise StorageError(f"{type(failure).__name__} in the background: {failure}") from failure

    def wait(self) -> None:
        """Until nothing is under way, well or not."""
        with self._lock:
            under_way, self._under_way = self._under_way, []
        for future in under_way:
            future.result()

    def settle(self) -> None:
        self.wait()
        self.check()
