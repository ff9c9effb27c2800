"""Queued batches on their way to the disk: taken on the owner's thread, written on a writer's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.storage.errors import StorageError, os_failure

if TYPE_CHECKING:
    from penstock.storage.interface import LogBackend, WriteRun


class FlushJob:
    """One write with its sync. `run` blocks, never raises, and touches nothing that the owner uses."""

    __slots__ = ("_backend", "_sync", "blobs", "end_offset", "epochs_version", "error", "name", "runs")

    def __init__(
        self,
        name: str,
        backend: LogBackend,
        runs: list[WriteRun],
        blobs: list[tuple[str, bytes]],
        *,
        sync: bool,
        end_offset: int,
        epochs_version: int,
    ) -> None:
        self.name = name
        self.runs = runs
        self.blobs = blobs
        self.end_offset = end_offset
        self.epochs_version = epochs_version
        self.error: StorageError | None = None
        """Set by `run`: nothing of this job counts."""
        self._backend = backend
        self._sync = sync

    @property
    def size(self) -> int:
        return sum(run.size for run in self.runs)

    @property
    def is_plain(self) -> bool:
        """It only hands bytes to the operating system: no sync, no new file."""
        needs_more = self._sync or self.blobs or any(run.roll or run.checkpoint for run in self.runs)
        return self._backend.is_local and not needs_more

    def run(self) -> None:
        try:
            self._backend.write(self.runs, self.blobs, sync=self._sync)
        except OSError as error:
            self.error = os_failure("write", self.name, error)
        except StorageError as error:
            self.error = error
        except Exception as error:
            # A bug in a writer thread must not be lost with the thread: it stops this log, visibly.
            self.error = StorageError(f"cannot write {self.name}: {type(error).__name__}: {error}")
