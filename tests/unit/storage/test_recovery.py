"""After an unclean stop: torn tails are cut, damage is named, indexes come back."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from penstock.storage import (
    DamagedEndError,
    FileStorage,
    Flush,
    LogConfig,
    PartitionLog,
    StorageError,
    pending,
    run_compaction,
)
from penstock.storage.index import decode_index, encode_index
from penstock.wire.records import Record, encode_batch
from tests.unit.storage.builders import (
    ALL,
    NOW_MS,
    TOPIC_ID,
    append,
    append_flushed,
    batch,
    small_config,
)
from tests.unit.storage.disks import QuickDisk
from tests.unit.storage.simulated_disk import File, SimulatedDisk

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = LogConfig(index_interval_bytes=1)


def open_storage(path: Path) -> FileStorage:
    return FileStorage.open(path, 1, disk=QuickDisk())


def open_log(storage: FileStorage, config: LogConfig = WHOLE) -> PartitionLog:
    return storage.open_log("t-0", TOPIC_ID, config, NOW_MS)


def offsets(log: PartitionLog) -> list[int]:
    return [header.base_offset for header, _ in log.batches(0, ALL)]


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A folder with three batches in one segment, left without a clean close."""
    storage = open_storage(tmp_path / "data")
    log = open_log(storage)
    for value in (b"first", b"second", b"third"):
        append_flushed(log, batch([value], producer_id=9, producer_epoch=0, base_sequence=log.log_end_offset))
    log.abandon()
    storage.close()
    return tmp_path / "data"


def segment_file(data: Path, base: int = 0) -> Path:
    return data / "t-0" / f"{base:020d}.log"


def reopened(data: Path, config: LogConfig = WHOLE) -> tuple[list[int], list[str], int]:
    storage = open_storage(data)
    try:
        log = open_log(storage, config)
        assert append_flushed(log, batch([b"next"])) == log.log_end_offset - 1
        found = offsets(log)
        assert found[-1] == log.log_end_offset - 1
        return found[:-1], log.recovery, log.log_end_offset - 1
    finally:
        storage.close()


def test_tail_torn_at_every_byte(crashed: Path, tmp_path: Path) -> None:
    raw = segment_file(crashed).read_bytes()
    ends = [len(batch([value])) for value in (b"first", b"second", b"third")]
    bounds = [0, ends[0], ends[0] + ends[1], sum(ends)]
    assert bounds[-1] == len(raw)
    for cut in range(len(raw)):
        copy = tmp_path / "copy"
        shutil.copytree(crashed, copy)
        segment_file(copy).write_bytes(raw[:cut])
        found, report, end = reopened(copy)
        whole = sum(bound <= cut for bound in bounds) - 1
        assert found == list(range(whole))
        assert end == whole
        if cut in bounds:
            assert report == []
        else:
            assert f"cut {cut - bounds[whole]} bytes at {bounds[whole]}" in report[0]
            assert str(segment_file(copy)) in report[0]
        shutil.rmtree(copy)


@pytest.mark.parametrize("filler", [b"\x00", b"\xff", b"\x02"])
def test_garbage_after_the_last_batch_is_cut(crashed: Path, filler: bytes) -> None:
    path = segment_file(crashed)
    raw = path.read_bytes()
    path.write_bytes(raw + filler * 5000)
    found, report, _ = reopened(crashed)
    assert found == [0, 1, 2]
    assert "cut 5000 bytes" in report[0]
    assert path.read_bytes().startswith(raw)


def test_a_flipped_byte_in_the_last_batch_cuts_it(crashed: Path, tmp_path: Path) -> None:
    raw = segment_file(crashed).read_bytes()
    start = len(raw) - len(batch([b"third"]))
    for at in range(start, len(raw)):
        if 12 <= at - start < 16 or 4 <= at - start < 8:
            continue  # leader epoch and base offset are outside the CRC; absurd offsets are noticed
        copy = tmp_path / "copy"
        shutil.copytree(crashed, copy)
        segment_file(copy).write_bytes(raw[:at] + bytes([raw[at] ^ 0xFF]) + raw[at + 1 :])
        found, report, _ = reopened(copy)
        assert found == [0, 1]
        assert len(report) == 1
        shutil.rmtree(copy)


def test_damage_before_valid_batches_refuses_to_open_and_harms_nothing(crashed: Path) -> None:
    path = segment_file(crashed)
    raw = bytearray(path.read_bytes())
    middle = len(batch([b"first"]))
    for at in (middle + 9, middle + 16, middle + 30, middle + 63):
        damaged = raw.copy()
        damaged[at] ^= 0xFF
        path.write_bytes(damaged)
        storage = open_storage(crashed)
        with pytest.raises(StorageError, match=rf"{path} is damaged at byte {middle} .*offset 2.*") as caught:
            open_log(storage)
        assert "\n" not in str(caught.value)
        storage.close()
        assert path.read_bytes() == damaged
    path.write_bytes(raw[:middle])
    assert reopened(crashed)[0] == [0]


def test_flush_os_cuts_at_the_first_bad_byte_whatever_follows(crashed: Path) -> None:
    path = segment_file(crashed)
    raw = bytearray(path.read_bytes())
    middle = len(batch([b"first"]))
    raw[middle + 63] ^= 0xFF
    path.write_bytes(raw)
    found, report, end = reopened(crashed, LogConfig(flush=Flush.OS))
    assert found == [0]
    assert end == 1
    assert "valid batches that were not synced follow" in report[0]


@pytest.fixture
def segmented(tmp_path: Path) -> Path:
    """Many segments, left without a clean close."""
    storage = open_storage(tmp_path / "data")
    log = open_log(storage, small_config())
    for at in range(40):
        append_flushed(log, batch([b"%03d" % at * 30], timestamp=NOW_MS + at))
    assert len(list((tmp_path / "data" / "t-0").glob("*.log"))) >= 4
    log.abandon()
    storage.close()
    return tmp_path / "data"


def check_segmented(data: Path, lines: int) -> None:
    storage = open_storage(data)
    log = open_log(storage, small_config())
    assert offsets(log) == list(range(40))
    assert len(log.recovery) == lines, log.recovery
    for at in range(40):
        assert log.find_by_time(NOW_MS + at, end_offset=ALL) == (at, NOW_MS + at, 0)
        header = next(iter(log.batches(at, ALL)))[0]
        assert header.base_offset == at
    storage.close()


def test_indexes_of_closed_segments_need_no_scan(segmented: Path) -> None:
    check_segmented(segmented, 0)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes() + b"x"),
        lambda path: path.write_bytes(path.read_bytes()[:20] + b"\xff" + path.read_bytes()[21:]),
    ],
    ids=["missing", "empty", "short", "long", "flipped"],
)
def test_missing_and_damaged_indexes_are_rebuilt(segmented: Path, damage: object) -> None:
    indexes = sorted((segmented / "t-0").glob("*.index"))
    for path in indexes:
        damage(path)  # type: ignore[operator]
    check_segmented(segmented, len(indexes))
    check_segmented(segmented, 0)


def test_indexes_are_rebuilt_on_demand_after_a_clean_close(segmented: Path) -> None:
    check_segmented(segmented, 0)  # closes cleanly
    for path in (segmented / "t-0").glob("*.index"):
        path.unlink()
    check_segmented(segmented, 0)


def test_an_index_of_another_segment_is_not_believed(segmented: Path) -> None:
    first, second, *_ = sorted((segmented / "t-0").glob("*.index"))
    first.write_bytes(second.read_bytes())
    check_segmented(segmented, 1)


def test_damage_in_a_closed_segment_is_reported_and_reads_of_it_fail(segmented: Path) -> None:
    paths = sorted((segmented / "t-0").glob("*.log"))
    second = int(paths[1].stem)
    raw = bytearray(paths[1].read_bytes())
    size = len(batch([b"000" * 30]))
    raw[size + 70] ^= 0xFF  # its second batch, inside the records
    paths[1].write_bytes(raw)
    paths[1].with_suffix(".index").unlink()
    storage = open_storage(segmented)
    log = open_log(storage, small_config())
    assert any(f"{paths[1]}: {size} bytes at {size} are damaged" in line for line in log.recovery)
    assert log.log_end_offset == 40
    assert bytes(log.read(second, 1 << 20, end_offset=ALL)) == raw[:size]
    with pytest.raises(StorageError, match=f"{paths[1]} is damaged at byte {size}"):
        log.read(second + 1, 1 << 20, end_offset=ALL)
    assert next(iter(log.batches(second + 2, ALL)))[0].base_offset == second + 2
    storage.close()
    assert paths[1].read_bytes() == raw


def test_a_bad_header_found_by_a_read_fails_that_read(segmented: Path) -> None:
    check_segmented(segmented, 0)  # a clean close: nobody scans at the next start
    path = min((segmented / "t-0").glob("*.log"))
    raw = bytearray(path.read_bytes())
    size = len(batch([b"000" * 30]))
    raw[size + 16] = 7
    path.write_bytes(raw)
    storage = open_storage(segmented)
    log = open_log(storage, small_config())
    with pytest.raises(StorageError, match=f"{path} is damaged at byte {size}"):
        log.read(1, 10, end_offset=ALL)
    assert log.read(2, 10, end_offset=ALL)
    storage.close()


def test_recovery_scans_only_from_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, "CHECKPOINT_BYTES", dict.fromkeys(Flush, 1000))
    storage = open_storage(tmp_path / "data")
    log = open_log(storage)
    for at in range(50):
        append(log, batch([b"x" * 90], producer_id=3, producer_epoch=0, base_sequence=at))
        if at % 5 == 4:
            log.flush()
    log.abandon()
    storage.close()
    folder = tmp_path / "data" / "t-0"
    snapshots = sorted(int(path.stem) for path in folder.glob("*.snapshot"))
    assert len(snapshots) == 2
    # Damage far before the checkpoint is not looked at, which proves that the scan began behind it.
    raw = bytearray(segment_file(tmp_path / "data").read_bytes())
    raw[70] ^= 0xFF
    segment_file(tmp_path / "data").write_bytes(raw)
    storage = open_storage(tmp_path / "data")
    log = open_log(storage)
    assert log.recovery == []
    assert log.log_end_offset == 50
    state = log.producers.get(3)
    assert state is not None
    assert [entry.base_offset for entry in state.batches] == [45, 46, 47, 48, 49]
    storage.close()


def test_damaged_snapshots_and_epochs_are_rebuilt_from_batches(segmented: Path) -> None:
    storage = open_storage(segmented)
    log = open_log(storage, small_config())
    append_flushed(log, batch(producer_id=5, producer_epoch=2, base_sequence=0), leader_epoch=3)
    append_flushed(log, batch(producer_id=5, producer_epoch=2, base_sequence=1), leader_epoch=4)
    storage.close()
    damaged = [*(segmented / "t-0").glob("*.snapshot"), segmented / "t-0" / "epochs"]
    for path in damaged:
        path.write_bytes(path.read_bytes()[:-2])
    storage = open_storage(segmented)
    log = open_log(storage, small_config())
    assert len(log.recovery) == len(damaged)
    assert log.epochs.entries == [(0, 0), (3, 40), (4, 41)]
    state = log.producers.get(5)
    assert state is not None
    assert state.epoch == 2
    assert [entry.base_offset for entry in state.batches] == [40, 41]
    storage.close()
    storage = open_storage(segmented)
    assert open_log(storage, small_config()).recovery == []
    storage.close()


def test_a_clean_marker_that_disagrees_with_the_files_is_not_believed(segmented: Path) -> None:
    check_segmented(segmented, 0)
    last = max((segmented / "t-0").glob("*.log"))
    raw = last.read_bytes()
    last.write_bytes(raw + b"torn")
    check_segmented(segmented, 1)
    assert last.read_bytes() == raw


def test_the_clean_marker_goes_before_the_next_write(segmented: Path) -> None:
    check_segmented(segmented, 0)
    marker = segmented / "t-0" / "clean"
    assert marker.exists()
    storage = open_storage(segmented)
    log = open_log(storage, small_config())
    assert marker.exists()
    append_flushed(log, batch())
    assert not marker.exists()
    storage.close()
    assert marker.exists()


OS = small_config(flush=Flush.OS)


def second_segment(data: Path) -> tuple[Path, list[Path]]:
    """The second segment, without an index, as if its sync had not come before the loss of power."""
    _, second, *behind = sorted((data / "t-0").glob("*.log"))
    for path in (second, *behind):
        path.with_suffix(".index").unlink(missing_ok=True)
    return second, behind


def check_cut(data: Path, end: int, behind: list[Path]) -> None:
    found, report, log_end = reopened(data, OS)
    assert found == list(range(end))
    assert log_end == end
    assert any(
        f"the log ends at offset {end}" in line or f"ends at offset {end} and" in line for line in report
    )
    for path in behind:
        assert not path.exists()
        assert any(f"{path}: removed with " in line for line in report)
    assert reopened(data, OS)[:2] == (list(range(end + 1)), [])


def test_flush_os_cuts_at_a_bad_byte_in_a_closed_segment(segmented: Path) -> None:
    path, behind = second_segment(segmented)
    raw = bytearray(path.read_bytes())
    size = len(batch([b"000" * 30]))
    raw[2 * size + 70] ^= 0xFF
    path.write_bytes(raw)
    check_cut(segmented, int(path.stem) + 2, behind)


def test_flush_os_cuts_where_a_closed_segment_ends_too_early(segmented: Path) -> None:
    path, behind = second_segment(segmented)
    path.write_bytes(path.read_bytes()[: 2 * len(batch([b"000" * 30]))])
    check_cut(segmented, int(path.stem) + 2, behind)


def test_flush_os_cuts_where_a_closed_segment_is_empty(segmented: Path) -> None:
    path, behind = second_segment(segmented)
    path.write_bytes(b"")
    check_cut(segmented, int(path.stem), behind)


def test_flush_os_keeps_whole_closed_segments_that_nobody_vouches_for(segmented: Path) -> None:
    path, _ = second_segment(segmented)
    found, report, _ = reopened(segmented, OS)
    assert found == list(range(40))
    assert f"{path}: index rebuilt from {path.stat().st_size} bytes" in report[0]


def test_flush_os_leaves_the_gaps_of_compaction_alone(tmp_path: Path) -> None:
    config = small_config(flush=Flush.OS, compact=True, delete=False)
    storage = open_storage(tmp_path)
    log = open_log(storage, config)
    for _ in range(40):
        append_flushed(log, batch([b"v" * 90], keys=[b"k"]))
    plan = log.compaction_plan(NOW_MS, ALL)
    assert plan is not None
    log.finish_compaction(run_compaction(plan))
    append_flushed(log, batch([b"v" * 90], keys=[b"l"]))
    left = offsets(log)
    assert left[0] > 0
    log.abandon()
    storage.close()
    storage = open_storage(tmp_path)
    log = open_log(storage, config)
    assert offsets(log) == left
    assert log.recovery == []
    storage.close()


def test_flush_os_cuts_where_an_older_index_vouches_for_what_is_left_of_a_closed_segment(
    segmented: Path,
) -> None:
    first, *behind = sorted((segmented / "t-0").glob("*.log"))
    size = 2 * len(batch([b"000" * 30]))
    first.write_bytes(first.read_bytes()[:size])
    known = decode_index(first.with_suffix(".index").read_bytes())
    assert known is not None
    older = replace(known, covered=size, end_offset=2)
    older.index.truncate(size)
    first.with_suffix(".index").write_bytes(encode_index(older))
    check_cut(segmented, 2, behind)


def test_flush_commit_tells_of_offsets_that_are_missing_between_segments(segmented: Path) -> None:
    first, second, *_ = sorted((segmented / "t-0").glob("*.log"))
    first.write_bytes(first.read_bytes()[: 2 * len(batch([b"000" * 30]))])
    first.with_suffix(".index").unlink()
    found, report, _ = reopened(segmented)
    assert found == [0, 1, *range(int(second.stem), 40)]
    assert any(
        f"{first}: ends at offset 2 and not at {int(second.stem)}" in line and "are missing" in line
        for line in report
    )


def test_flush_os_keeps_what_compaction_left_when_its_index_is_gone(tmp_path: Path) -> None:
    config = small_config(flush=Flush.OS, compact=True, delete=False)
    storage = open_storage(tmp_path)
    log = open_log(storage, config)
    for number in range(40):  # the last batches of each closed segment are superseded by the next ones
        append_flushed(log, batch([b"v" * 90], keys=[b"first" if number == 0 else b"k"]))
    plan = log.compaction_plan(NOW_MS, ALL)
    assert plan is not None
    log.finish_compaction(run_compaction(plan))
    left = offsets(log)
    log.abandon()
    storage.close()
    for path in (tmp_path / "t-0").glob("*.index"):
        path.unlink()
    storage = open_storage(tmp_path)
    log = open_log(storage, config)
    assert offsets(log) == left
    assert left[0] == 0
    assert left[1] > 1
    storage.close()


def test_flush_os_keeps_what_a_follower_of_a_compacted_log_has(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    log = open_log(storage, OS)
    for base_offset in range(0, 400, 10):  # nine of ten offsets are gone from the leader's log
        log.append_fetched(
            encode_batch(
                [Record(0, NOW_MS, None, b"v" * 90)],
                base_offset=base_offset,
                last_offset=base_offset,
                leader_epoch=0,
            ),
            now_ms=NOW_MS,
        )
        log.flush()
    assert len(list((tmp_path / "t-0").glob("*.log"))) > 2
    left = offsets(log)
    log.abandon()
    storage.close()
    for path in (tmp_path / "t-0").glob("*.index"):
        path.unlink()  # the background had not come to them
    storage = open_storage(tmp_path)
    log = open_log(storage, OS)
    assert offsets(log) == left == list(range(0, 400, 10))
    storage.close()


def test_a_damaged_end_is_cut_when_others_have_it(crashed: Path) -> None:
    path = segment_file(crashed)
    raw = bytearray(path.read_bytes())
    raw[len(batch([b"first"])) + 70] ^= 0xFF
    path.write_bytes(raw)
    storage = open_storage(crashed)
    with pytest.raises(DamagedEndError, match="valid batches follow"):
        open_log(storage)
    log = open_log(storage, replace(WHOLE, cuts_damaged_end=True))
    assert offsets(log) == [0]
    assert log.log_end_offset == 1
    storage.close()


def test_what_recovery_vouches_for_is_synced_first() -> None:
    disk = SimulatedDisk(delayed=0)
    disk.delay_ends = 0.0
    storage = FileStorage.open("/data", 1, disk=disk)
    log = open_log(storage, OS)
    for _ in range(20):
        append_flushed(log, batch([b"x" * 200]))
    log.abandon()  # the process stops; what it wrote is in the page cache
    storage.close()
    folder = disk._folder("/data/t-0")
    for name in [name for name in folder.names if name.endswith(".index")]:
        del folder.names[name]
    for inode in folder.names.values():
        if isinstance(inode, File):
            inode.synced = b""
    storage = FileStorage.open("/data", 1, disk=disk)
    open_log(storage, OS)
    for name, inode in folder.names.items():
        if name.endswith(".log"):
            assert isinstance(inode, File)
            assert inode.synced == inode.data, name


def test_a_log_start_beyond_the_end_does_not_hide_what_is_appended_later(crashed: Path) -> None:
    storage = open_storage(crashed)
    open_log(storage).delete_records_before(3)
    storage.close()
    (crashed / "t-0" / "clean").unlink()
    segment_file(crashed).write_bytes(b"")
    found, report, end = reopened(crashed)
    assert (found, end) == ([], 0)
    assert any("the log start 3 lies beyond the end" in line for line in report)
    assert reopened(crashed)[0] == [0]
