"""Compaction by key: the latest value of each key stays, under its offset. Both backends."""

from __future__ import annotations

import errno
import os
import select
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.storage import (
    CompactionPlan,
    CompactionResult,
    FileStorage,
    LogConfig,
    MemoryStorage,
    PartitionLog,
    Storage,
    StorageError,
    run_compaction,
)
from penstock.storage.cleaner import build_key_map
from penstock.storage.cleaning_files import FileRound
from penstock.wire.batch import read_header
from penstock.wire.records import decode_records
from tests.support.examples import EXAMPLES
from tests.unit.storage.builders import ALL, NOW_MS, TOPIC_ID, append_flushed, batch, open_in, small_config
from tests.unit.storage.disks import CrashError, CrashingDisk, QuickDisk

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.storage.disk import Disk

HOUR_MS = 3_600_000


def compacting(**changes: object) -> LogConfig:
    return small_config(compact=True, delete=False, segment_bytes=600, **changes)


def open_log(storage: Storage, config: LogConfig | None = None) -> PartitionLog:
    return storage.open_log("t-0", TOPIC_ID, config or compacting(), NOW_MS)


def records(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [
        (record.offset, record.key, record.value)
        for _, data in log.batches(0, ALL)
        for record in decode_records(data)
    ]


def latest(
    found: list[tuple[int, bytes | None, bytes | None]],
) -> dict[bytes | None, tuple[int, bytes | None]]:
    return {key: (offset, value) for offset, key, value in found}


def write(log: PartitionLog, keys: list[int], *, value: bytes | None = b"v" * 60, codec: int = 0) -> None:
    append_flushed(log, batch([value] * len(keys), keys=[b"k%d" % key for key in keys], codec=codec))


def compact(log: PartitionLog, now_ms: int = NOW_MS) -> list[str]:
    plan = log.compaction_plan(now_ms, ALL)
    assert plan is not None
    return log.finish_compaction(run_compaction(plan))


def test_latest_values_stay_under_their_offsets(storage: Storage) -> None:
    log = open_log(storage)
    for at in range(30):
        write(log, [at % 3, 7], codec=at % 5)
    before = records(log)
    size = log.size_bytes
    lines = compact(log)
    assert "compacted offsets 0 to" in lines[0]
    after = records(log)
    assert latest(after) == latest(before)
    assert set(after) <= set(before)
    assert log.size_bytes < size / 2
    assert log.log_end_offset == 60
    assert log.compaction_plan(NOW_MS, ALL) is None, "nothing dirty is left"
    log.close()
    log = open_log(storage)
    assert log.recovery == []
    assert records(log) == after
    write(log, [1])
    assert records(log)[-1][0] == 60
    for offset, _, _ in after:
        assert read_header(log.read(offset, 1, end_offset=ALL)).last_offset >= offset


def test_the_active_segment_and_what_is_above_the_bound_is_left_alone(storage: Storage) -> None:
    log = open_log(storage)
    for _ in range(20):
        write(log, [1])
    assert log.compaction_plan(NOW_MS, 0) is None
    plan = log.compaction_plan(NOW_MS, 9)
    assert plan is not None
    assert plan.end_offset <= 9
    log.finish_compaction(run_compaction(plan))
    offsets = [offset for offset, _, _ in records(log)]
    assert offsets == list(range(plan.end_offset - 1, 20))


def test_min_lag_ratio_and_max_lag_decide_when(storage: Storage) -> None:
    log = open_log(storage, compacting(min_compaction_lag_ms=1000))
    for _ in range(20):
        write(log, [1])
    assert log.compaction_plan(NOW_MS + 999, ALL) is None
    assert log.compaction_plan(NOW_MS + 1000, ALL) is not None
    log.reconfigure(compacting(min_cleanable_dirty_ratio=0.9))
    for _ in range(20):
        compact_if_due = log.compaction_plan(NOW_MS, ALL)
        if compact_if_due:
            log.finish_compaction(run_compaction(compact_if_due))
            break
    for at in range(100, 140):
        write(log, [at])
    compact(log)
    for _ in range(8):
        write(log, [1])
    assert log.compaction_plan(NOW_MS, ALL) is None
    log.reconfigure(compacting(min_cleanable_dirty_ratio=0.9, max_compaction_lag_ms=10))
    assert log.compaction_plan(NOW_MS + 11, ALL) is not None
    log.reconfigure(small_config())
    assert log.compaction_plan(NOW_MS + 11, ALL) is None


def test_tombstones_stay_until_readers_had_time_to_see_them(storage: Storage) -> None:
    log = open_log(storage, compacting(delete_retention_ms=HOUR_MS, min_cleanable_dirty_ratio=0.0))
    write(log, [1])
    write(log, [1], value=None)
    for _ in range(12):
        write(log, [2])
    compact(log)
    assert (1, b"k1", None) in records(log)
    assert (0, b"k1", b"v" * 60) not in records(log)
    assert log.compaction_plan(NOW_MS + HOUR_MS - 1, ALL) is None
    compact(log, NOW_MS + HOUR_MS)
    assert b"k1" not in latest(records(log))
    assert log.compaction_plan(NOW_MS + 2 * HOUR_MS, ALL) is None


def test_the_last_batch_of_a_producer_keeps_its_header(storage: Storage) -> None:
    log = open_log(storage)
    for at in range(3):
        append_flushed(log, batch([b"v"], keys=[b"k"], producer_id=8, producer_epoch=1, base_sequence=at))
    for _ in range(20):
        write(log, [1])
    append_flushed(log, batch([b"w"], keys=[b"k"]))
    for _ in range(8):
        write(log, [1])
    compact(log)
    headers = [header for header, _ in log.batches(0, ALL) if header.producer_id == 8]
    assert [(header.base_offset, header.records_count, header.base_sequence) for header in headers] == [
        (2, 0, 2)
    ]
    log.abandon()
    log = open_log(storage)
    state = log.producers.get(8)
    assert state is not None
    assert state.batches[-1].last_sequence == 2


def test_small_segments_are_merged(storage: Storage) -> None:
    log = open_log(storage)
    for at in range(60):
        write(log, [at % 2])
    assert len(log._backend.segments()) > 8
    for _ in range(6):
        plan = log.compaction_plan(NOW_MS, ALL)
        if plan is None:
            write(log, [0])
            continue
        log.finish_compaction(run_compaction(plan))
    assert len(log._backend.segments()) <= 8
    assert {key: value[1] for key, value in latest(records(log)).items()} == {
        b"k0": b"v" * 60,
        b"k1": b"v" * 60,
    }


def test_a_result_for_segments_that_have_gone_is_dropped(storage: Storage) -> None:
    log = open_log(storage)
    for _ in range(30):
        write(log, [1])
    plan = log.compaction_plan(NOW_MS, ALL)
    assert plan is not None
    result = run_compaction(plan)
    log.delete_records_before(15)
    before = records(log)
    assert "dropped" in log.finish_compaction(result)[0]
    assert records(log) == before


def test_a_result_for_a_log_that_was_closed_is_dropped(storage: Storage) -> None:
    log = open_log(storage)
    for _ in range(30):
        write(log, [1])
    before = records(log)
    plan = log.compaction_plan(NOW_MS, ALL)
    assert plan is not None
    result = run_compaction(plan)
    log.close()
    assert "dropped" in log.finish_compaction(result)[0]
    assert records(open_log(storage)) == before


def test_truncation_below_what_was_compacted_makes_it_dirty_again(storage: Storage) -> None:
    log = open_log(storage, compacting(min_cleanable_dirty_ratio=0.0))
    for at in range(40):
        write(log, [at])
    compact(log)
    log.truncate_to(10)
    for _ in range(20):
        write(log, [99])
    compact(log)
    found = latest(records(log))
    assert set(found) == {*(b"k%d" % at for at in range(10)), b"k99"}
    assert sum(key == b"k99" for _, key, _ in records(log)) < 10


def test_a_key_map_that_is_full_stops_between_batches() -> None:
    batches = []
    for at in range(10):
        data = batch([b"v", b"v"], keys=[b"%d" % at, b"x" * 40])
        header = read_header(data)._replace(base_offset=2 * at)
        batches.append((header, memoryview(data)))
    keys = build_key_map(batches, 0, 20, keys_max=6)
    assert keys.end == 8
    assert len(keys.last) == 5
    assert b"0" not in build_key_map(batches, 4, 20).last


def test_in_another_process(tmp_path: Path) -> None:
    storage = FileStorage.open(tmp_path, 1)
    log = open_log(storage)
    for _ in range(30):
        write(log, [1, 2])
    plan = log.compaction_plan(NOW_MS, ALL)
    assert plan is not None
    assert CompactionPlan.from_json(plan.to_json()) == plan
    done = subprocess.run(
        [sys.executable, "-m", "penstock.storage.compact"],
        input=plan.to_json(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    log.finish_compaction(CompactionResult.from_json(plan, done.stdout))
    assert len(records(log)) < 20
    plan.folder = str(tmp_path / "nowhere")
    done = subprocess.run(
        [sys.executable, "-m", "penstock.storage.compact"],
        input=plan.to_json(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == "cannot compact t-0: No such file or directory\n"
    storage.close()


def test_damaged_input_fails_and_changes_nothing(tmp_path: Path) -> None:
    storage = FileStorage.open(tmp_path, 1)
    log = open_log(storage)
    for _ in range(30):
        write(log, [1])
    path = min((tmp_path / "t-0").glob("*.log"))
    raw = bytearray(path.read_bytes())
    raw[-5] ^= 0xFF
    path.write_bytes(raw)
    plan = log.compaction_plan(NOW_MS, ALL)
    assert plan is not None
    with pytest.raises(StorageError, match=r"cannot compact t-0: .* at byte \d+: CRC mismatch"):
        run_compaction(plan)
    assert path.read_bytes() == raw
    storage.close()


def test_crash_at_every_step_of_the_swap(tmp_path: Path) -> None:
    def prepared(path: Path) -> tuple[CrashingDisk, FileStorage, PartitionLog, CompactionResult]:
        disk = CrashingDisk()
        storage = FileStorage.open(path, 1, disk=disk)
        log = open_log(storage)
        for at in range(40):
            write(log, [at % 4])
        plan = log.compaction_plan(NOW_MS, ALL)
        assert plan is not None
        return disk, storage, log, run_compaction(plan)

    disk, storage, log, result = prepared(tmp_path / "whole")
    expected = latest(records(log))
    before = disk.changes
    log.finish_compaction(result)
    total = disk.changes - before
    whole = records(log)
    storage.close()
    assert total > 10
    swapped = 0
    for crash_at in range(total):
        disk, storage, log, result = prepared(tmp_path / str(crash_at))
        original = records(log)
        disk.changes_left = crash_at
        with pytest.raises(CrashError):
            log.finish_compaction(result)
        disk.changes_left = None
        log.abandon()
        storage.close()
        storage = FileStorage.open(tmp_path / str(crash_at), 1, disk=CrashingDisk())
        log = open_log(storage)
        found = records(log)
        assert found in (original, whole), "all or nothing"
        assert latest(found) == expected
        assert log.recovery == []
        swapped += found == whole
        names = [path.name for path in (tmp_path / str(crash_at) / "t-0").iterdir()]
        assert not [name for name in names if name.endswith((".cleaned", ".tmp")) or name == "swap"]
        storage.close()
    assert 0 < swapped < total


def cleaned(path: Path) -> list[str]:
    return sorted(each.name for each in (path / "t-0").iterdir() if ".cleaned" in each.name)


def prepared(path: Path, disk: Disk | None = None) -> tuple[FileStorage, PartitionLog, CompactionPlan]:
    storage = FileStorage.open(path, 1, disk=disk)
    log = open_log(storage)
    for at in range(30):
        write(log, [at % 4])
    plan = log.compaction_plan(NOW_MS, ALL)
    assert plan is not None
    return storage, log, plan


def test_each_run_has_files_of_its_own(tmp_path: Path) -> None:
    storage, log, plan = prepared(tmp_path)
    orphan = FileRound(str(tmp_path / "t-0"), plan)
    orphan.begin(0)
    with pytest.raises(FileExistsError):
        FileRound(str(tmp_path / "t-0"), plan).begin(0)
    again = log.compaction_plan(NOW_MS, ALL)
    assert again is not None
    result = run_compaction(again)
    batches = list(orphan.batches(plan.segments[:1]))
    log.finish_compaction(result)
    expected = records(log)
    for _, data in batches:
        orphan.add(bytes(data))
    orphan.end(plan.segments[0].end_offset)
    assert records(log) == expected
    assert len(cleaned(tmp_path)) == 2
    storage.close()
    storage = FileStorage.open(tmp_path, 1)
    assert records(open_log(storage)) == expected
    assert cleaned(tmp_path) == []
    storage.close()


def test_a_failed_run_leaves_nothing(tmp_path: Path) -> None:
    storage, _, plan = prepared(tmp_path)
    path = sorted((tmp_path / "t-0").glob("*.log"))[-2]
    raw = bytearray(path.read_bytes())
    raw[-5] ^= 0xFF
    path.write_bytes(raw)
    plan.dirty_from = plan.end_offset  # the damage is met while writing, not while collecting keys
    before = open_in(tmp_path)
    with pytest.raises(StorageError, match="CRC mismatch"):
        run_compaction(plan)
    assert cleaned(tmp_path) == []
    assert open_in(tmp_path) == before
    storage.close()


def test_a_run_that_was_stopped_is_discarded(tmp_path: Path) -> None:
    storage, log, plan = prepared(tmp_path)
    result = run_compaction(plan)
    (tmp_path / "t-0" / f"{0:020d}.index.{plan.run}.cleaned.tmp").write_bytes(b"x")
    other = tmp_path / "t-0" / f"{0:020d}.log.other.cleaned"
    other.write_bytes(b"x")
    before = records(log)
    log.discard_compaction(plan)
    assert cleaned(tmp_path) == [other.name]
    assert "dropped" in log.finish_compaction(result)[0]
    assert records(log) == before
    storage.close()


def test_results_that_are_dropped_leave_no_files(tmp_path: Path) -> None:
    storage, log, plan = prepared(tmp_path)
    result = run_compaction(plan)
    assert cleaned(tmp_path)
    log.delete_records_before(10)
    assert "its segments have changed" in log.finish_compaction(result)[0]
    assert cleaned(tmp_path) == []
    plan = log.compaction_plan(NOW_MS, ALL)
    assert plan is not None
    result = run_compaction(plan)
    log.close()
    assert "has been closed" in log.finish_compaction(result)[0]
    assert cleaned(tmp_path) == []
    storage.delete_log("t-0")
    assert "has been closed" in log.finish_compaction(result)[0], "the folder may be gone as well"
    storage.close()


def test_segments_that_were_cut_and_filled_to_the_same_size_are_noticed(storage: Storage) -> None:
    log = open_log(storage)
    for _ in range(30):
        write(log, [1])
    plan = log.compaction_plan(NOW_MS, ALL)
    assert plan is not None
    result = run_compaction(plan)
    segments = log._backend.segments()
    log.truncate_to(3)
    for _ in range(27):
        write(log, [2])
    assert log._backend.segments() == segments
    before = records(log)
    assert "its segments have changed" in log.finish_compaction(result)[0]
    assert records(log) == before


class FailingRename(QuickDisk):
    """Renames fail once so many have succeeded."""

    left: int | None = None

    def rename(self, source: str, target: str) -> None:
        if self.left is not None:
            if not self.left:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            self.left -= 1
        super().rename(source, target)


@pytest.mark.parametrize("renames", [1, 2, 3, 5])
def test_a_swap_that_fails_half_way_turns_the_log_read_only(tmp_path: Path, renames: int) -> None:
    disk = FailingRename()
    storage, log, plan = prepared(tmp_path, disk)
    expected = latest(records(log))
    result = run_compaction(plan)
    disk.left = renames
    with pytest.raises(StorageError, match="Input/output error; t-0 is read-only from offset 30 on"):
        log.finish_compaction(result)
    disk.left = None
    assert log.error is not None
    with pytest.raises(StorageError, match="read-only"):
        write(log, [1])
    with pytest.raises(StorageError):
        log.read(0, 1 << 20, end_offset=ALL)
    assert log.compaction_plan(NOW_MS, ALL) is None
    storage.close()
    assert not (tmp_path / "t-0" / "clean").exists()
    storage = FileStorage.open(tmp_path, 1)
    log = open_log(storage)
    assert latest(records(log)) == expected
    assert sum(segment.size for segment in result.segments) < sum(segment.size for segment in plan.segments)
    assert cleaned(tmp_path) == []
    storage.close()


def test_a_swap_that_cannot_begin_changes_nothing(tmp_path: Path) -> None:
    disk = FailingRename()
    storage, log, plan = prepared(tmp_path, disk)
    before = records(log)
    result = run_compaction(plan)
    disk.left = 0
    with pytest.raises(StorageError, match="cannot swap compacted segments of t-0: Input/output error"):
        log.finish_compaction(result)
    disk.left = None
    assert log.error is None
    assert cleaned(tmp_path) == []
    assert records(log) == before
    compact(log)
    assert latest(records(log)) == latest(before)
    storage.close()


def test_a_plan_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    storage, log, _ = prepared(tmp_path)
    (tmp_path / "t-0" / "cleaner").mkdir()
    with pytest.raises(StorageError, match="cannot plan the compaction of t-0: Is a directory"):
        log.compaction_plan(NOW_MS, ALL)
    (tmp_path / "t-0" / "cleaner").rmdir()
    storage.close()


def test_a_child_whose_parent_has_gone_does_nothing(tmp_path: Path) -> None:
    storage, _, plan = prepared(tmp_path)
    for text in ("", plan.to_json().replace(f'"owner": {plan.owner}', '"owner": 1')):
        done = subprocess.run(
            [sys.executable, "-m", "penstock.storage.compact"],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert done.stderr == "cannot compact: the process that asked for it has gone\n"
    assert cleaned(tmp_path) == []
    storage.close()


def test_a_child_ends_with_its_parent() -> None:
    """A parent starts a child that waits for its input, tells its id, and is killed."""
    read_end, write_end = os.pipe()
    child = "import sys; from penstock.storage.compact import end_with_parent; end_with_parent(); "
    child += "print('ready', flush=True); sys.stdin.read()"
    parent = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], stdin={read_end}, stdout=-1)\n"
        "print(child.stdout.readline().decode().strip(), child.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    started = subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(read_end,)
    )
    os.close(read_end)
    assert started.stdout is not None
    ready, pid = started.stdout.readline().split()
    assert ready == b"ready"
    handle = os.pidfd_open(int(pid))
    started.kill()
    started.communicate()
    assert select.select([handle], [], [], 10)[0], "its input is still open, so only the signal ends it"
    os.close(handle)
    os.close(write_end)


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    database=None,
)
@given(
    writes=st.lists(
        st.tuples(
            st.lists(
                st.tuples(st.integers(0, 5), st.one_of(st.none(), st.binary(max_size=30))),
                min_size=1,
                max_size=4,
            ),
            st.integers(0, 4),
            st.booleans(),
        ),
        min_size=1,
        max_size=60,
    ),
    keys_max=st.sampled_from([2, 5, 1000]),
)
def test_compaction_never_changes_what_a_reader_ends_up_with(
    writes: list[tuple[list[tuple[int, bytes | None]], int, bool]], keys_max: int
) -> None:
    """At any moment, and whatever is compacted in between: the state that the records build is the same."""
    storage = MemoryStorage(TOPIC_ID)
    log = open_log(storage, compacting(min_cleanable_dirty_ratio=0.0, delete_retention_ms=100))
    model: dict[bytes, tuple[int, bytes | None]] = {}
    now_ms = NOW_MS
    for content, codec, compact_now in writes:
        keys = [b"key-%d" % key for key, _ in content]
        base = append_flushed(log, batch([value for _, value in content], keys=keys, codec=codec))
        for at, (key, (_, value)) in enumerate(zip(keys, content, strict=True)):
            model[key] = base + at, value
        now_ms += 60
        if compact_now and (plan := log.compaction_plan(now_ms, ALL)):
            plan.keys_max = keys_max
            log.finish_compaction(run_compaction(plan))
        found = latest(records(log))
        for key, (offset, value) in model.items():
            if value is not None:
                assert found[key] == (offset, value)
            else:
                assert found.get(key, (offset, None)) == (offset, None)
        offsets = [offset for offset, _, _ in records(log)]
        assert offsets == sorted(set(offsets))
