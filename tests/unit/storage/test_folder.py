"""The data folder: one owner, one format, one clear line when it cannot be used."""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from penstock.storage import FileStorage, Flush, LogConfig, StorageError
from tests.unit.storage.builders import (
    ALL,
    NOW_MS,
    TOPIC_ID,
    append,
    append_flushed,
    batch,
    open_in,
    small_config,
)
from tests.unit.storage.disks import FullDisk

if TYPE_CHECKING:
    from pathlib import Path


def one_line(path: Path, node_id: int = 1) -> str:
    with pytest.raises(StorageError) as caught:
        FileStorage.open(path, node_id)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_ids_are_made_once(tmp_path: Path) -> None:
    storage = FileStorage.open(tmp_path / "a" / "b", 7, cluster_id="c")
    storage_id = storage.storage_id
    storage.set_cluster_id("d")
    storage.close()
    storage = FileStorage.open(tmp_path / "a" / "b", 7)
    assert (storage.storage_id, storage.node_id, storage.cluster_id) == (storage_id, 7, "d")
    assert isinstance(storage_id, UUID)
    assert storage.path == str(tmp_path / "a" / "b")
    storage.close()
    assert one_line(tmp_path / "a" / "b", 8) == f"{tmp_path}/a/b belongs to node 7, not 8"


def test_a_folder_has_one_user(tmp_path: Path) -> None:
    storage = FileStorage.open(tmp_path, 1)
    assert one_line(tmp_path) == f"{tmp_path} is in use by process {os.getpid()}"
    storage.close()
    FileStorage.open(tmp_path, 1).close()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"format": "1"}',
        '{"format": 1, "storage_id": "x", "cluster_id": "", "node_id": 1}',
    ],
)
def test_damaged_meta_is_refused_and_left_alone(tmp_path: Path, content: str) -> None:
    (tmp_path / "meta.json").write_text(content)
    assert one_line(tmp_path) == f"{tmp_path}/meta.json is damaged; the folder cannot be used without it"
    assert (tmp_path / "meta.json").read_text() == content
    assert one_line(tmp_path).endswith("cannot be used without it"), "the lock was given back"


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    FileStorage.open(tmp_path, 1).close()
    meta = json.loads((tmp_path / "meta.json").read_text())
    (tmp_path / "meta.json").write_text(json.dumps({**meta, "format": 2}))
    assert one_line(tmp_path) == f"{tmp_path} has data format 2; this version knows formats up to 1"


def test_missing_meta_beside_logs_is_refused(tmp_path: Path) -> None:
    storage = FileStorage.open(tmp_path, 1)
    storage.open_log("t-0", TOPIC_ID, LogConfig(), NOW_MS)
    storage.close()
    (tmp_path / "meta.json").unlink()
    assert one_line(tmp_path) == f"{tmp_path}/meta.json is missing although the folder holds t-0"


def test_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert one_line(tmp_path / "file") == f"cannot use {tmp_path}/file: it is not a folder"
    assert "Not a directory" in one_line(tmp_path / "file" / "below")


def test_unwritable(tmp_path: Path) -> None:
    assert one_line(tmp_path.__class__("/proc/penstock")).startswith(
        "cannot use the data folder /proc/penstock: "
    )


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", ".hidden", "x" * 256])
def test_names_that_would_leave_the_folder(tmp_path: Path, name: str) -> None:
    storage = FileStorage.open(tmp_path, 1)
    with pytest.raises(StorageError, match="cannot be the name of a log"):
        storage.open_log(name, TOPIC_ID, LogConfig(), NOW_MS)
    storage.close()


def test_deleted_folders_that_a_crash_left_are_removed(tmp_path: Path) -> None:
    FileStorage.open(tmp_path, 1).close()
    left = tmp_path / ".deleted-1"
    left.mkdir()
    (left / "x.log").write_text("x")
    storage = FileStorage.open(tmp_path, 1)
    assert not left.exists()
    assert storage.logs() == []
    storage.close()


def test_damaged_partition_file_is_named(tmp_path: Path) -> None:
    storage = FileStorage.open(tmp_path, 1)
    storage.open_log("t-0", TOPIC_ID, LogConfig(), NOW_MS).close()
    (tmp_path / "t-0" / "partition").write_text("x")
    with pytest.raises(StorageError, match="t-0/partition is damaged"):
        storage.open_log("t-0", TOPIC_ID, LogConfig(), NOW_MS)
    storage.close()


def test_open_files_are_bounded(tmp_path: Path) -> None:
    storage = FileStorage.open(tmp_path, 1, open_files_max=8)
    logs = [storage.open_log(f"t-{at}", TOPIC_ID, small_config(), NOW_MS) for at in range(40)]
    before = len(open_in(tmp_path))
    for at in range(5):
        for log in logs:
            append_flushed(log, batch([b"%d" % at * 200]))
    assert storage.open_files <= 8
    assert len(open_in(tmp_path)) <= before + 8
    for log in logs:
        assert len(list(log.batches(0, ALL))) == 5
    assert storage.open_files <= 8
    storage.close()
    assert open_in(tmp_path) == []


def test_indexes_of_closed_segments_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = FileStorage.open(tmp_path, 1)
    cache = storage._indexes
    monkeypatch.setattr(cache, "entries_max", 100)
    log = storage.open_log("t-0", TOPIC_ID, small_config(), NOW_MS)
    for at in range(100):
        append_flushed(log, batch([b"x" * 200], timestamp=NOW_MS + at))
    for at in reversed(range(100)):
        assert log.find_by_time(NOW_MS + at, end_offset=ALL) == (at, NOW_MS + at, 0)
    assert 0 < cache.entries <= 100
    log.delete_records_before(100)
    log.close()
    assert cache.entries == 0
    storage.close()


def test_appends_and_reads_go_on_while_a_writer_thread_works(tmp_path: Path) -> None:
    storage = FileStorage.open(tmp_path, 1, open_files_max=1)
    log = storage.open_log("t-0", TOPIC_ID, small_config(segment_bytes=5000), NOW_MS)
    other = storage.open_log("u-0", TOPIC_ID, small_config(), NOW_MS)
    append_flushed(other, batch())
    for _ in range(60):
        for _ in range(5):
            append(log, batch([b"x" * 100]))
        job = log.take_flush()
        assert job is not None
        writer = threading.Thread(target=job.run)
        writer.start()
        while writer.is_alive():
            append(log, batch([b"y" * 50]))
            assert other.read(0, 1000, end_offset=ALL)
            assert len(list(log.batches(max(0, log.flushed_end_offset - 3), ALL))) == min(
                3, log.flushed_end_offset
            )
            writer.join(0.0005)
        log.finish_flush(job)
    log.flush()
    assert [header.base_offset for header, _ in log.batches(0, ALL)] == list(range(log.log_end_offset))
    storage.close()


@pytest.mark.parametrize("flush", list(Flush))
def test_a_log_is_deleted_although_the_disk_is_full(tmp_path: Path, flush: Flush) -> None:
    disk = FullDisk()
    storage = FileStorage.open(tmp_path, 1, disk=disk)
    log = storage.open_log("t-0", TOPIC_ID, small_config(flush=flush), NOW_MS)
    for _ in range(10):
        append_flushed(log, batch([b"x" * 200]))
    disk.room = 0
    for _ in range(10):
        append(log, batch([b"x" * 200]))
    log.flush()
    assert log.error is not None
    storage.delete_log("t-0")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "meta.json"]
    disk.room = None
    storage.open_log("t-0", UUID(int=8), small_config(), NOW_MS)
    storage.close()


def test_a_log_that_cannot_be_created_leaves_nothing(tmp_path: Path) -> None:
    disk = FullDisk()
    storage = FileStorage.open(tmp_path, 1, disk=disk)
    (tmp_path / "u-0").mkdir()
    (tmp_path / "u-0" / "somebodys").write_text("x")
    disk.room = 10
    for name in ("t-0", "u-0"):
        with pytest.raises(StorageError, match="No space left on device"):
            storage.open_log(name, TOPIC_ID, LogConfig(), NOW_MS)
    assert not (tmp_path / "t-0").exists()
    assert (tmp_path / "u-0" / "somebodys").exists(), "only what was made just now goes"
    disk.room = None
    storage.open_log("t-0", UUID(int=8), LogConfig(), NOW_MS)
    storage.close()


def test_a_log_that_cannot_be_opened_leaves_nothing_open(tmp_path: Path) -> None:
    storage = FileStorage.open(tmp_path, 1)
    log = storage.open_log("t-0", TOPIC_ID, small_config(), NOW_MS)
    for _ in range(11):
        append_flushed(log, batch([b"x" * 200]))
    storage.close()
    folder = tmp_path / "t-0"
    (folder / "clean").unlink()
    for path in folder.glob("*.index"):
        path.unlink()
    last = max(folder.glob("*.log"))
    raw = bytearray(last.read_bytes())
    raw[70] ^= 0xFF
    last.write_bytes(raw)
    storage = FileStorage.open(tmp_path, 1)
    with pytest.raises(StorageError, match="is damaged at byte 0"):
        storage.open_log("t-0", TOPIC_ID, small_config(), NOW_MS)
    assert storage.open_files == 0
    assert storage._indexes.entries == 0
    last.write_bytes(b"")
    log = storage.open_log("t-0", TOPIC_ID, small_config(), NOW_MS)
    assert log.log_end_offset == int(last.stem)
    for path in folder.glob("*.snapshot"):
        path.unlink()
    log.abandon()
    (folder / "epochs").unlink()
    (folder / "epochs").mkdir()
    with pytest.raises(StorageError, match="Is a directory"):
        storage.open_log("t-0", TOPIC_ID, small_config(), NOW_MS)
    assert storage.open_files == 0
    assert storage._indexes.entries == 0
    storage.close()
    assert open_in(tmp_path) == []
