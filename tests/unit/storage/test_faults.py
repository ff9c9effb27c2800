"""Disks that are full or fail: the log turns read-only, says why, and loses nothing that counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.storage import FileStorage, LogConfig, PartitionLog, StorageError
from penstock.wire.batch import iterate_headers
from tests.unit.storage.builders import (
    ALL,
    NOW_MS,
    TOPIC_ID,
    append,
    append_flushed,
    batch,
    small_config,
)
from tests.unit.storage.disks import CrashError, CrashingDisk, FullDisk, ShortDisk, SyncFails

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.storage.disk import Disk


def open_log(path: Path, disk: Disk, config: LogConfig | None = None) -> tuple[FileStorage, PartitionLog]:
    storage = FileStorage.open(path, 1, disk=disk)
    return storage, storage.open_log("t-0", TOPIC_ID, config or LogConfig(), NOW_MS)


def offsets(log: PartitionLog) -> list[int]:
    return [header.base_offset for header, _ in log.batches(0, ALL)]


@pytest.mark.parametrize("room", [0, 1, 15, 16, 17, 100, 250])
def test_full_disk_turns_read_only_and_leaves_whole_batches(tmp_path: Path, room: int) -> None:
    disk = FullDisk()
    storage, log = open_log(tmp_path, disk)
    append_flushed(log, batch([b"a" * 100]))
    size = log.size_bytes
    disk.room = room
    append(log, batch([b"b" * 100]))
    append(log, batch([b"c" * 100]))
    log.flush()
    assert log.error is not None
    assert "No space left on device" in str(log.error)
    assert "t-0 is read-only from offset 1 on" in str(log.error)
    assert log.flushed_end_offset == 1
    assert log.log_end_offset == 3
    with pytest.raises(StorageError, match="No space left"):
        append(log, batch())
    assert log.take_flush() is None
    assert offsets(log) == [0]
    assert (tmp_path / "t-0" / f"{0:020d}.log").stat().st_size == size
    storage.close()
    disk.room = None
    storage, log = open_log(tmp_path, disk)
    assert log.recovery == []
    assert log.log_end_offset == 1
    assert append_flushed(log, batch()) == 1
    storage.close()


def test_full_disk_while_rolling(tmp_path: Path) -> None:
    """Wherever in a job with several rolls the room ends, the state before the job is what remains."""
    for room in range(0, 6000, 97):
        path = tmp_path / str(room)
        disk = FullDisk()
        storage, log = open_log(path, disk, small_config(segment_bytes=400))
        append_flushed(log, batch([b"a" * 100]))
        disk.room = room
        for _ in range(8):
            append(log, batch([b"b" * 100], producer_id=1, producer_epoch=0, base_sequence=0))
        log.flush()
        failed = log.error is not None
        disk.room = None
        storage.close()
        storage, log = open_log(path, disk, small_config(segment_bytes=400))
        assert log.recovery == []
        assert offsets(log) == list(range(1 if failed else 9))
        assert len(log.producers) == (0 if failed else 1)
        storage.close()


def test_a_close_that_fails_gives_the_folder_free_and_loses_nothing(tmp_path: Path) -> None:
    disk = FullDisk()
    storage, log = open_log(tmp_path, disk)
    other = storage.open_log("u-0", TOPIC_ID, LogConfig(), NOW_MS)
    append_flushed(log, batch())
    append_flushed(other, batch())
    disk.room = 0
    with pytest.raises(StorageError, match="cannot close t-0: No space left on device"):
        storage.close()
    disk.room = None
    storage, log = open_log(tmp_path, disk)
    assert offsets(log) == [0]
    storage.close()


def test_failed_sync_never_counts(tmp_path: Path) -> None:
    disk = SyncFails()
    storage, log = open_log(tmp_path, disk)
    append_flushed(log, batch())
    disk.failing = True
    append(log, batch())
    job = log.take_flush()
    assert job is not None
    job.run()
    disk.failing = False  # a second sync that succeeds must not be believed either
    log.finish_flush(job)
    assert log.flushed_end_offset == 1
    assert log.error is not None
    assert "Input/output error" in str(log.error)
    storage.close()
    storage, log = open_log(tmp_path, disk)
    assert log.log_end_offset == 1
    storage.close()


@pytest.mark.parametrize("size_max", [1, 7, 16, 61, 1000])
def test_short_writes_are_continued(tmp_path: Path, size_max: int) -> None:
    storage, log = open_log(tmp_path, ShortDisk(size_max))
    for at in range(6):
        append(log, batch([b"%d" % at * 50]))
    log.flush()
    assert log.error is None
    assert offsets(log) == list(range(6))
    storage.close()


def test_more_buffers_than_one_call_takes(tmp_path: Path) -> None:
    storage = FileStorage.open(tmp_path, 1)
    log = storage.open_log("t-0", TOPIC_ID, LogConfig(), NOW_MS)
    for _ in range(1500):
        append(log, batch())
    log.flush()
    assert offsets(log) == list(range(1500))
    storage.close()


def test_a_bug_in_the_writer_stops_the_log_and_not_the_process(tmp_path: Path) -> None:
    class Buggy(FullDisk):
        def fdatasync(self, fd: int) -> None:
            if self.room is not None:
                raise ZeroDivisionError("surprise")
            super().fdatasync(fd)

    disk = Buggy()
    storage, log = open_log(tmp_path, disk)
    disk.room = 1 << 20
    append(log, batch())
    log.flush()
    assert "ZeroDivisionError: surprise" in str(log.error)
    assert log.flushed_end_offset == 0
    disk.room = None
    storage.close()


def test_crash_at_every_change_of_the_disk(tmp_path: Path) -> None:
    """Appends, rolls, truncation, log start, close: stop before any change, open again, nothing is lost."""

    def work(log: PartitionLog, acknowledged: list[int]) -> None:
        for at in range(6):
            append_flushed(log, batch([b"x" * 150], producer_id=1, producer_epoch=0, base_sequence=at))
            acknowledged.append(at)
        log.delete_records_before(2)
        acknowledged.remove(5)
        log.truncate_to(5)
        append_flushed(log, batch([b"y" * 150], producer_id=1, producer_epoch=0, base_sequence=5))
        acknowledged.append(5)
        log.close()

    config = small_config(segment_bytes=500)
    disk = CrashingDisk()
    storage, log = open_log(tmp_path / "whole", disk, config)
    before = disk.changes
    work(log, [])
    total = disk.changes - before
    storage.close()
    assert total > 30
    for crash_at in range(total):
        disk = CrashingDisk()
        storage, log = open_log(tmp_path / str(crash_at), disk, config)
        disk.changes_left = crash_at
        acknowledged: list[int] = []
        with pytest.raises(CrashError):
            work(log, acknowledged)
        disk.changes_left = None
        log.abandon()
        storage.close()
        storage, log = open_log(tmp_path / str(crash_at), CrashingDisk(), config)
        found = [at for at in offsets(log) if at >= log.log_start_offset]
        expected = [at for at in acknowledged if at >= log.log_start_offset]
        assert found[: len(expected)] == expected
        assert log.log_start_offset in (0, 2)
        state = log.producers.get(1)
        if found:
            assert state is not None
            assert state.batches[-1].last_offset == found[-1]
        assert append_flushed(log, batch()) == log.log_end_offset - 1
        storage.close()


def test_a_truncation_that_fails_turns_the_log_read_only(tmp_path: Path) -> None:
    """It may have stopped half way, and then what is in memory is not what is on disk."""
    disk = SyncFails()
    storage, log = open_log(tmp_path, disk, small_config(segment_bytes=400))
    for _ in range(8):
        append_flushed(log, batch([b"x" * 100]))
    disk.failing = True
    with pytest.raises(StorageError, match="cannot truncate t-0: Input/output error; t-0 is read-only"):
        log.truncate_to(3)
    disk.failing = False
    assert log.error is not None
    with pytest.raises(StorageError, match="read-only"):
        append(log, batch())
    storage.close()
    storage, log = open_log(tmp_path, disk, small_config(segment_bytes=400))
    assert offsets(log) == list(range(log.log_end_offset))
    assert log.log_end_offset >= 3
    storage.close()


def test_reads_stay_whole_while_a_job_is_in_flight(tmp_path: Path) -> None:
    storage = FileStorage.open(tmp_path, 1)
    log = storage.open_log("t-0", TOPIC_ID, small_config(), NOW_MS)
    append_flushed(log, batch([b"x" * 100]))
    append(log, batch([b"y" * 100]))
    job = log.take_flush()
    assert job is not None
    assert log.take_flush() is None, "one job at a time"
    job.run()
    assert append(log, batch([b"z" * 100])) == 2
    assert offsets(log) == [0]
    log.finish_flush(job)
    assert offsets(log) == [0, 1]
    assert log.flushed_end_offset == 2
    log.flush()
    data = log.read(0, 1 << 20, end_offset=ALL)
    assert [header.base_offset for _, header in iterate_headers(data)] == [0, 1, 2]
    storage.close()


def test_crash_at_every_change_of_a_new_beginning(tmp_path: Path) -> None:
    """Either the log is as it was, or a part of that, or it is empty, and then it goes on at its end."""

    def filled(path: Path, disk: CrashingDisk) -> tuple[FileStorage, PartitionLog]:
        storage, log = open_log(path, disk, small_config(segment_bytes=400))
        for at in range(8):
            data = batch([b"x" * 100], producer_id=1, producer_epoch=0, base_sequence=at)
            append_flushed(log, data, leader_epoch=at // 4)
        log.delete_records_before(2)
        return storage, log

    disk = CrashingDisk()
    storage, log = filled(tmp_path / "whole", disk)
    before = disk.changes
    log.restart_at(50)
    total = disk.changes - before
    storage.close()
    assert total > 5
    for crash_at in range(total):
        disk = CrashingDisk()
        storage, log = filled(tmp_path / str(crash_at), disk)
        disk.changes_left = crash_at
        with pytest.raises(CrashError):
            log.restart_at(50)
        disk.changes_left = None
        log.abandon()
        storage.close()
        storage, log = open_log(tmp_path / str(crash_at), CrashingDisk(), small_config(segment_bytes=400))
        if log.log_end_offset <= 8:
            assert [at for at in offsets(log) if at >= 2] == list(range(2, log.log_end_offset))
        else:
            assert (log.log_start_offset, log.log_end_offset, offsets(log)) == (50, 50, [])
        log.restart_at(50)
        assert append_flushed(log, batch(), leader_epoch=2) == 50
        storage.close()


def test_a_new_beginning_that_fails_turns_the_log_read_only(tmp_path: Path) -> None:
    disk = SyncFails()
    storage, log = open_log(tmp_path, disk)
    append_flushed(log, batch())
    log.truncate_to(0)
    disk.failing = True
    with pytest.raises(StorageError, match="cannot empty t-0: Input/output error; t-0 is read-only"):
        log.restart_at(5)
    with pytest.raises(StorageError, match="read-only"):
        append(log, batch())
    disk.failing = False
    storage.close()


def test_a_note_that_is_damaged_or_not_written(tmp_path: Path) -> None:
    disk = SyncFails()
    storage, log = open_log(tmp_path, disk)
    log.put_note("a-note", {"epoch": 7})
    disk.failing = True
    with pytest.raises(StorageError, match="cannot write t-0/a-note: Input/output error"):
        log.put_note("a-note", {"epoch": 8})
    disk.failing = False
    assert log.get_note("a-note") == {"epoch": 7}
    path = tmp_path / "t-0" / "a-note"
    path.write_bytes(path.read_bytes().replace(b"7", b"9"))
    with pytest.raises(StorageError, match="a-note of t-0 is damaged"):
        log.get_note("a-note")
    storage.close()
