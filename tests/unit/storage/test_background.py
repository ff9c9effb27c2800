"""Syncs in the background under `flush=os`: what fails there is never forgotten."""

from __future__ import annotations

import errno
import os
import threading
from typing import TYPE_CHECKING

import pytest

from penstock.storage import FileStorage, Flush, LogConfig, PartitionLog, StorageError
from penstock.storage.background import Background
from penstock.storage.disk import Disk
from tests.unit.storage.builders import (
    ALL,
    NOW_MS,
    TOPIC_ID,
    append,
    append_flushed,
    batch,
    small_config,
)
from tests.unit.storage.disks import FullDisk, at_once
from tests.unit.storage.simulated_disk import SimulatedDisk

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from pathlib import Path


def fail() -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_the_first_failure_stays_and_ends_all_that_follows() -> None:
    disk = SimulatedDisk(delayed=0)
    disk.delay_ends = 0.0
    background = Background(disk)
    done: list[int] = []
    background.begin(lambda: done.append(1))
    background.begin(fail)
    background.begin(lambda: done.append(2))
    background.check()
    background.wait()
    assert done == [1], "what comes after a failed sync must not vouch for anything"
    assert not disk.delayed
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output error"):
            background.check()
        with pytest.raises(OSError, match="Input/output error"):
            background.settle()


def test_a_bug_in_the_background_is_kept_as_well() -> None:
    background = Background(SimulatedDisk())
    background.begin(lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    with pytest.raises(StorageError, match="ZeroDivisionError in the background"):
        background.settle()


def test_begun_in_one_thread_and_awaited_in_another() -> None:
    disk = Disk()
    background = Background(disk)
    done: list[int] = []

    def begin() -> None:
        for at in range(2000):
            background.begin(lambda at=at: done.append(at))  # type: ignore[misc]

    writer = threading.Thread(target=begin)
    writer.start()
    while writer.is_alive():
        background.wait()
    background.settle()
    assert done == list(range(2000))
    disk.end_background()


def test_one_thread_for_the_background_however_many_begin_it() -> None:
    disk = Disk()
    names: set[str] = set()
    together = threading.Barrier(8)

    def begin() -> None:
        together.wait()
        disk.in_background(lambda: names.add(threading.current_thread().name)).result()

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names) == 1
    disk.end_background()
    assert not [thread for thread in threading.enumerate() if thread.name in names]


def test_closing_the_storage_ends_the_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    storage = FileStorage.open(tmp_path, 1)
    log = storage.open_log("t-0", TOPIC_ID, small_config(flush=Flush.OS), NOW_MS)
    for _ in range(20):
        append_flushed(log, batch([b"x" * 100]))
    assert threading.active_count() == before + 1
    storage.close()
    assert threading.active_count() == before


class FailingSync(Disk):
    """Syncs fail while `failing` is set, and nothing else."""

    failing = False

    def fdatasync(self, fd: int) -> None:
        if self.failing:
            fail()

    def fsync_dir(self, path: str) -> None:
        """Nothing."""

    def in_background(self, task: Callable[[], None]) -> Future[None]:
        return at_once(task)


def failed_in_background(
    path: Path, disk: FailingSync, **changes: object
) -> tuple[FileStorage, PartitionLog]:
    """A log whose last roll was not synced, which it has not noticed yet."""
    storage = FileStorage.open(path, 1, disk=disk)
    log = storage.open_log("t-0", TOPIC_ID, small_config(flush=Flush.OS, **changes), NOW_MS)
    append_flushed(log, batch([b"x" * 400], producer_id=1, producer_epoch=0, base_sequence=0))
    append_flushed(log, batch([b"x" * 400]))
    disk.failing = True
    append_flushed(log, batch([b"x" * 400]))
    disk.failing = False
    assert log.error is None
    return storage, log


def test_a_failure_in_the_background_makes_the_next_write_fail(tmp_path: Path) -> None:
    storage, log = failed_in_background(tmp_path, FailingSync())
    append(log, batch())
    log.flush()
    assert "Input/output error" in str(log.error)
    assert log.flushed_end_offset == 3
    storage.close()
    assert not (tmp_path / "t-0" / "clean").exists()


def test_retention_does_not_swallow_a_failure_in_the_background(tmp_path: Path) -> None:
    storage, log = failed_in_background(tmp_path, FailingSync(), retention_bytes=100)
    assert len(log.apply_retention(now_ms=NOW_MS, high_watermark=ALL)) == 1, "room is made all the same"
    append(log, batch())
    log.flush()
    assert "Input/output error" in str(log.error)
    storage.close()
    assert not (tmp_path / "t-0" / "clean").exists()


def test_a_log_with_a_failure_in_the_background_does_not_close_as_clean(tmp_path: Path) -> None:
    storage, _ = failed_in_background(tmp_path, FailingSync())
    with pytest.raises(StorageError, match="cannot close t-0: Input/output error"):
        storage.close()
    assert not (tmp_path / "t-0" / "clean").exists()
    assert not (tmp_path / "t-0" / f"{0:020d}.index").exists(), "nobody vouches for it"


def test_a_log_with_a_failure_in_the_background_can_be_deleted(tmp_path: Path) -> None:
    storage, _ = failed_in_background(tmp_path, FailingSync())
    storage.delete_log("t-0")
    assert not (tmp_path / "t-0").exists()
    storage.close()


def test_a_failed_write_is_undone_even_if_the_background_failed_too(tmp_path: Path) -> None:
    disk = FullDisk()
    storage = FileStorage.open(tmp_path, 1, disk=disk)
    log = storage.open_log("t-0", TOPIC_ID, small_config(flush=Flush.OS), NOW_MS)
    append_flushed(log, batch([b"x" * 500]))
    disk.room = 100  # the index in the background does not fit, nor then does the batch
    for _ in range(2):
        append(log, batch([b"x" * 500]))
    log.flush()
    assert "No space left" in str(log.error)
    assert [path.name for path in (tmp_path / "t-0").glob("*.log")] == [f"{0:020d}.log"]
    assert (tmp_path / "t-0" / f"{0:020d}.log").stat().st_size == log.size_bytes
    storage.close()


def test_after_a_change_to_commit_the_background_is_awaited_first() -> None:
    disk = SimulatedDisk(delayed=0)
    disk.delay_ends = 0.0
    storage = FileStorage.open("/data", 1, disk=disk)
    log = storage.open_log("t-0", TOPIC_ID, small_config(flush=Flush.OS), NOW_MS)
    for _ in range(12):
        append_flushed(log, batch([b"x" * 300]))
    assert disk.delayed
    log.reconfigure(LogConfig(flush=Flush.COMMIT))
    append_flushed(log, batch())
    assert not disk.delayed, "an acknowledged batch has everything before it on disk"
    disk.lose_power(0)
    storage = FileStorage.open("/data", 1, disk=disk)
    log = storage.open_log("t-0", TOPIC_ID, small_config(), NOW_MS)
    assert [header.base_offset for header, _ in log.batches(0, ALL)] == list(range(13))
    assert log.recovery == []
    storage.close()
