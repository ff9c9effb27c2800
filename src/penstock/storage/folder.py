"""The data folder of a node: whose it is, in which format, and that only one process uses it.

::

    .lock         held (flock) for as long as a process uses the folder; contains its pid
    meta.json     {"format": 1, "storage_id": …, "cluster_id": …, "node_id": …}
    <topic>-<n>/  one folder per log, see file.py

The storage id is created with the folder: a node that lost its folder is thereby known to have lost it.
"""

from __future__ import annotations

import json
import os
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock.storage.blobs import seal, unseal
from penstock.storage.descriptors import Descriptors
from penstock.storage.disk import Disk, write_all, write_atomically
from penstock.storage.errors import StorageError, os_failure
from penstock.storage.file import PARTITION, FileBackend
from penstock.storage.index_cache import IndexCache
from penstock.storage.log import PartitionLog

if TYPE_CHECKING:
    from penstock.storage.config import LogConfig

FORMAT = 1
LOCK = ".lock"
META = "meta.json"
DELETED_PREFIX = ".deleted-"
ASIDE_PREFIX = ".aside-"
"""Of the names of logs that are kept for somebody to look at."""
OPEN_FILES_MAX = 256
NAME_BYTES_MAX = 255


class FileStorage:
    """Use `FileStorage.open`."""

    def __init__(
        self, path: str, disk: Disk, lock_fd: int, meta: dict[str, Any], open_files_max: int
    ) -> None:
        self.path = path
        self.storage_id = uuid.UUID(meta["storage_id"])
        self.cluster_id = str(meta["cluster_id"])
        self.node_id = int(meta["node_id"])
        self._disk = disk
        self._lock_fd = lock_fd
        self._descriptors = Descriptors(disk, open_files_max)
        self._indexes = IndexCache(self._descriptors)
        self._open: dict[str, PartitionLog] = {}

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        node_id: int,
        *,
        cluster_id: str = "",
        disk: Disk | None = None,
        open_files_max: int = OPEN_FILES_MAX,
    ) -> FileStorage:
        """Create or open the folder and lock it. StorageError says in one line why not; nothing is harmed."""
        disk = disk or Disk()
        folder = os.path.abspath(path)
        try:
            disk.makedirs(folder)
            lock_fd = _lock(disk, folder)
        except FileExistsError as error:
            raise StorageError(f"cannot use {folder}: it is not a folder") from error
        except OSError as error:
            raise os_failure("use the data folder", folder, error) from error
        try:
            meta = _read_meta(disk, folder) or _create_meta(disk, folder, node_id, cluster_id)
            if meta["node_id"] != node_id:
                raise StorageError(f"{folder} belongs to node {meta['node_id']}, not {node_id}")
            storage = cls(folder, disk, lock_fd, meta, open_files_max)
            storage._remove_deleted()
        except OSError as error:
            disk.close(lock_fd)
            raise os_failure("use the data folder", folder, error) from error
        except StorageError:
            disk.close(lock_fd)
            raise
        return storage

    @property
    def open_files(self) -> int:
        return len(self._descriptors)

    def set_cluster_id(self, cluster_id: str) -> None:
        """Recorded once a node has joined a cluster."""
        if cluster_id == self.cluster_id:
            return
        meta = {"storage_id": str(self.storage_id), "cluster_id": cluster_id, "node_id": self.node_id}
        try:
            _write_meta(self._disk, self.path, meta)
        except OSError as error:
            raise os_failure("write", f"{self.path}/{META}", error) from error
        self.cluster_id = cluster_id

    def open_log(self, name: str, topic_id: uuid.UUID, config: LogConfig, now_ms: int) -> PartitionLog:
        check_name(name)
        if name in self._open and not self._open[name].closed:
            raise StorageError(f"{name} is open already")
        folder = f"{self.path}/{name}"
        try:
            known = self._topic_id(folder)
            if known is None:
                self._create_log(folder, topic_id)
            elif known != topic_id:
                raise StorageError(f"{folder} belongs to topic id {known}, not {topic_id}")
            log = PartitionLog(name, topic_id, config, FileBackend(self._indexes, folder), now_ms)
        except OSError as error:
            raise os_failure("open", folder, error) from error
        self._open[name] = log
        return log

    def logs(self) -> list[tuple[str, uuid.UUID]]:
        try:
            found = []
            for name in sorted(self._disk.listdir(self.path)):
                if name.startswith(".") or not self._disk.is_folder(f"{self.path}/{name}"):
                    continue
                with suppress(StorageError):  # whose it is cannot be told: opening it will say so
                    topic_id = self._topic_id(f"{self.path}/{name}")
                    if topic_id is not None:
                        found.append((name, topic_id))
        except OSError as error:
            raise os_failure("list", self.path, error) from error
        return found

    def delete_log(self, name: str) -> None:
        """Gone at once and for good: the folder is renamed first, so that a crash leaves no half of it."""
        check_name(name)
        log = self._open.pop(name, None)
        assert log is None or not log.is_flushing, "deletion waits for the job in flight"
        try:
            if log is not None:
                log.abandon()
            if self._disk.exists(f"{self.path}/{name}"):
                aside = f"{self.path}/{DELETED_PREFIX}{uuid.uuid4().hex}"
                self._disk.rename(f"{self.path}/{name}", aside)
                self._disk.fsync_dir(self.path)
                self._remove_folder(aside)  # and no other: its owner may be another thread
        except OSError as error:
            raise os_failure("delete", f"{self.path}/{name}", error) from error

    def set_aside(self, name: str) -> str:
        check_name(name)
        if name in self._open and not self._open[name].closed:
            raise StorageError(f"{name} is open and cannot be set aside")
        aside = f"{self.path}/{ASIDE_PREFIX}{name}-{uuid.uuid4().hex}"
        try:
            self._disk.rename(f"{self.path}/{name}", aside)
            self._disk.fsync_dir(self.path)
        except OSError as error:
            raise os_failure("set aside", f"{self.path}/{name}", error) from error
        return aside

    def get_note(self, name: str) -> Any:
        try:
            return unseal(self._disk.read_file(f"{self.path}/{name}"))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise os_failure("read", f"{self.path}/{name}", error) from error

    def put_note(self, name: str, note: Any) -> None:
        try:
            write_atomically(self._disk, f"{self.path}/{name}", seal(note))
            self._disk.fsync_dir(self.path)
        except OSError as error:
            raise os_failure("write", f"{self.path}/{name}", error) from error

    def stopping(self) -> None:
        """A disk is never away for long."""

    def close(self) -> None:
        """Close every log and give the folder free. The first failure is raised once that is done."""
        failures: list[StorageError] = []
        for log in self._open.values():
            try:
                log.close()
            except StorageError as error:
                failures.append(error)
        self._open.clear()
        self._disk.end_background()
        self._descriptors.close()
        self._disk.close(self._lock_fd)
        if failures:
            raise failures[0]

    def _topic_id(self, folder: str) -> uuid.UUID | None:
        """None: the folder is not there, or a crash left it before it was a log."""
        try:
            data = self._disk.read_file(f"{folder}/{PARTITION}")
        except FileNotFoundError:
            return None
        value = unseal(data)
        if value is None:
            raise StorageError(f"{folder}/{PARTITION} is damaged")
        return uuid.UUID(value["topic_id"])

    def _create_log(self, folder: str, topic_id: uuid.UUID) -> None:
        found = self._disk.is_folder(folder)
        if not found:
            self._disk.mkdir(folder)
        try:
            write_atomically(
                self._disk, f"{folder}/{PARTITION}", seal({"format": FORMAT, "topic_id": str(topic_id)})
            )
            self._disk.fsync_dir(folder)
            self._disk.fsync_dir(self.path)
        except OSError:
            if not found:
                with suppress(OSError):  # should it stay: without that file it is not a log
                    self._remove_folder(folder)
            raise

    def _remove_deleted(self) -> None:
        for name in self._disk.listdir(self.path):
            if name.startswith(DELETED_PREFIX):
                self._remove_folder(f"{self.path}/{name}")

    def _remove_folder(self, folder: str) -> None:
        for name in self._disk.listdir(folder):
            self._disk.unlink_if_there(f"{folder}/{name}")
        self._disk.rmdir(folder)


def _lock(disk: Disk, folder: str) -> int:
    path = f"{folder}/{LOCK}"
    fd = disk.open(path, create=True)
    if not disk.lock(fd):
        owner = disk.pread(fd, 32, 0).decode("ascii", "replace").strip()
        disk.close(fd)
        raise StorageError(f"{folder} is in use by process {owner or 'unknown'}")
    disk.ftruncate(fd, 0)
    write_all(disk, fd, [f"{os.getpid()}\n".encode()], 0)
    return fd


def _read_meta(disk: Disk, folder: str) -> dict[str, Any] | None:
    path = f"{folder}/{META}"
    try:
        meta = json.loads(disk.read_file(path))
        if not isinstance(meta, dict) or not isinstance(meta["format"], int):
            raise TypeError
        if meta["format"] > FORMAT:
            raise StorageError(
                f"{folder} has data format {meta['format']}; this version knows formats up to {FORMAT}"
            )
        uuid.UUID(meta["storage_id"])
        int(meta["node_id"])
        str(meta["cluster_id"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageError(f"{path} is damaged; the folder cannot be used without it") from error
    return meta


def _create_meta(disk: Disk, folder: str, node_id: int, cluster_id: str) -> dict[str, Any]:
    strangers = [name for name in disk.listdir(folder) if disk.exists(f"{folder}/{name}/{PARTITION}")]
    if strangers:
        raise StorageError(f"{folder}/{META} is missing although the folder holds {strangers[0]}")
    return _write_meta(
        disk, folder, {"storage_id": str(uuid.uuid4()), "cluster_id": cluster_id, "node_id": node_id}
    )


def _write_meta(disk: Disk, folder: str, fields: dict[str, Any]) -> dict[str, Any]:
    meta = {"format": FORMAT, **fields}
    write_atomically(disk, f"{folder}/{META}", json.dumps(meta, indent=2).encode() + b"\n")
    disk.fsync_dir(folder)
    return meta


def check_name(name: str) -> None:
    if not name or name.startswith(".") or "/" in name or "\0" in name or len(name.encode()) > NAME_BYTES_MAX:
        raise StorageError(f"{name!r} cannot be the name of a log")
