"""The real storage on a simulated disk that loses power before any of its calls.

Whatever was acknowledged (flushed under `flush=commit`) is there afterwards, under its offset, with its epoch
and producer state; whatever was never appended is not. Under `flush=os` the log is a prefix of what was
appended, without a gap, and at least what was synced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

import pytest

from penstock.storage import (
    FileStorage,
    Flush,
    LogConfig,
    PartitionLog,
    cleaning_files,
    pending,
    run_compaction,
)
from penstock.wire.batch import HEADER_SIZE, BatchHeader, read_header
from penstock.wire.records import decode_records
from tests.unit.storage.builders import ALL, NOW_MS, TOPIC_ID, append, batch, small_config
from tests.unit.storage.simulated_disk import File, PowerFailure, SimulatedDisk

SEEDS = 2
"""For each moment, and others for each: what the first choices of a seed are is the same at every moment."""
T = TypeVar("T")


def seeds_of(moment: int) -> range:
    return range(moment * SEEDS, (moment + 1) * SEEDS)


class Acknowledged:
    """What the outside was told."""

    def __init__(self) -> None:
        self.values: dict[int, bytes] = {}
        self.possible: dict[int, set[bytes]] = {}
        self.log_start = 0
        self.log_start_possible = 0

    def copy(self) -> Acknowledged:
        other = Acknowledged()
        other.values = dict(self.values)
        other.possible = {offset: set(values) for offset, values in self.possible.items()}
        other.log_start = self.log_start
        other.log_start_possible = self.log_start_possible
        return other

    def write(self, log: PartitionLog, values: list[bytes], *, epoch: int = 0, sequence: int = -1) -> None:
        told = []
        for at, value in enumerate(values):
            data = batch(
                [value],
                keys=[value[:2]],
                producer_id=6 if sequence >= 0 else -1,
                producer_epoch=0 if sequence >= 0 else -1,
                base_sequence=sequence + at if sequence >= 0 else -1,
            )
            offset = append(log, data, leader_epoch=epoch)
            self.possible.setdefault(offset, set()).add(value)
            told.append((offset, value))
        log.flush()
        assert log.flushed_end_offset == log.log_end_offset
        self.values.update(told)


def appends(log: PartitionLog, known: Acknowledged) -> None:
    for at in range(8):
        known.write(log, [b"%d-%d" % (at, inner) * 20 for inner in range(3)], epoch=at // 3, sequence=3 * at)
    log.close()


def truncates(log: PartitionLog, known: Acknowledged) -> None:
    for at in range(6):
        known.write(log, [b"a%d" % at * 60] * 2, epoch=at // 2)
    for epoch, offset in enumerate((9, 4, 4, 0), start=10):
        known.values = {at: value for at, value in known.values.items() if at < offset}
        log.truncate_to(offset)
        known.write(log, [b"b%d" % offset * 60], epoch=epoch)
    log.close()


def deletes(log: PartitionLog, known: Acknowledged) -> None:
    for at in range(10):
        known.write(log, [b"a%d" % at * 60])
        known.log_start_possible = at
        log.delete_records_before(at)
        known.log_start = at
    log.reconfigure(small_config(retention_bytes=0))
    known.log_start_possible = 10
    log.apply_retention(now_ms=NOW_MS, high_watermark=ALL)
    known.log_start = log.log_start_offset
    log.close()


def stopped_before_each_call(
    disk: SimulatedDisk, work: Callable[[], None], told: Callable[[], T]
) -> list[tuple[SimulatedDisk, T]]:
    """The disk before each call of some work that changes it, and what had been told at that moment."""
    moments: list[tuple[SimulatedDisk, T]] = []
    disk.before_each_call = lambda: moments.append((disk.copy(), told()))
    work()
    disk.before_each_call = None
    return [*moments, (disk.copy(), told())]


def check_after_power_failure(disk: SimulatedDisk, seed: int, known: Acknowledged, config: LogConfig) -> None:
    disk.lose_power(seed)
    storage = FileStorage.open("/data", 1, disk=disk)
    log = storage.open_log("t-0", TOPIC_ID, config, NOW_MS)
    check(log, known)
    end = log.log_end_offset
    known.write(log, [b"z" * 30], epoch=20)
    assert known.values[end] == b"z" * 30
    check(log, known)
    storage.close()


def check(log: PartitionLog, known: Acknowledged) -> None:
    assert known.log_start <= log.log_start_offset <= max(known.log_start, known.log_start_possible)
    found: dict[int, bytes | None] = {}
    for header, data in log.batches(0, ALL):
        for record in decode_records(data):
            found[record.offset] = record.value
        assert log.epochs.epoch_at(header.base_offset) == header.partition_leader_epoch
        if header.producer_id != -1:
            state = log.producers.get(header.producer_id)
            assert state is not None
            assert state.batches[-1].last_offset >= header.base_offset
    for offset, value in known.values.items():
        if offset >= log.log_start_offset:
            assert found[offset] == value, offset
    for offset, value in found.items():
        assert value in known.possible[offset]


@pytest.mark.parametrize("work", [appends, truncates, deletes])
def test_power_failure_before_every_call(work: Callable[[PartitionLog, Acknowledged], None]) -> None:
    config = small_config(segment_bytes=450)
    disk, known = SimulatedDisk(), Acknowledged()
    log = FileStorage.open("/data", 1, disk=disk).open_log("t-0", TOPIC_ID, config, NOW_MS)
    moments = stopped_before_each_call(disk, lambda: work(log, known), known.copy)
    assert len(moments) > 60
    for number, (stopped, told) in enumerate(moments):
        for seed in seeds_of(number):
            check_after_power_failure(stopped.copy(), seed, told.copy(), config)


class Unsynced:
    """One run under `flush=os`: appends with rolls and checkpoints, power failure, two more starts."""

    def __init__(self, disk: SimulatedDisk, appended: Sequence[bytes] = ()) -> None:
        self.disk = disk
        self.config = small_config(segment_bytes=900, flush=Flush.OS)
        self.appended = list(appended)

    def open(self) -> tuple[FileStorage, PartitionLog]:
        storage = FileStorage.open("/data", 1, disk=self.disk)
        return storage, storage.open_log("t-0", TOPIC_ID, self.config, NOW_MS)

    def work(self, log: PartitionLog) -> None:
        for at in range(12):
            self._append(log, at)
            self._append(log, at)
            log.flush()
            assert log.error is None
        log.close()

    def _append(self, log: PartitionLog, at: int) -> None:
        sequence = log.log_end_offset
        value = b"%03d" % len(self.appended) * 40
        self.appended.append(value)
        data = batch([value], producer_id=6, producer_epoch=0, base_sequence=sequence)
        append(log, data, leader_epoch=at // 4)

    def files(self) -> list[tuple[str, File]]:
        folder = self.disk._folder("/data/t-0")
        return sorted(
            (name, inode)
            for name, inode in folder.names.items()
            if name.endswith(".log") and isinstance(inode, File)
        )

    def synced(self) -> int:
        """How many batches were on disk, with all before them."""
        count = 0
        durable = self.disk._folder("/data/t-0").synced
        for name, file in self.files():
            if durable.get(name) is not file:
                break
            count += sum(1 for _ in iterate_whole(file.synced))
            if file.synced != file.data:
                break
        return count

    def check_reopened(self, synced: int) -> None:
        before = sum(len(file.data) for _, file in self.files())
        storage, log = self.open()
        found = []
        for at, (header, data) in enumerate(log.batches(0, ALL)):
            assert header.base_offset == at, "no gap"
            assert log.epochs.epoch_at(at) == header.partition_leader_epoch
            found += [record.value for record in decode_records(data)]
        assert found == self.appended[: len(found)], "a prefix"
        assert len(found) >= synced
        assert log.log_end_offset == len(found)
        if log.size_bytes < before:
            assert any("the log ends" in line for line in log.recovery)
        state = log.producers.get(6)
        assert (state.batches[-1].last_offset if state else -1) == len(found) - 1
        self.appended = self.appended[: len(found)]
        self._append(log, 20)
        log.flush()
        storage.close()


def iterate_whole(data: bytes) -> Iterator[BatchHeader]:
    position = 0
    while position + HEADER_SIZE <= len(data):
        header = read_header(data, position)
        if position + header.size > len(data):
            return
        yield header
        position += header.size


@pytest.mark.parametrize("delayed", [None, 1, 2])
def test_power_failure_under_flush_os(delayed: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "CHECKPOINT_BYTES", dict.fromkeys(Flush, 400))
    disk = SimulatedDisk(delayed=delayed, holes=True)
    first = Unsynced(disk)
    _, log = first.open()
    moments = stopped_before_each_call(disk, lambda: first.work(log), lambda: tuple(first.appended))
    assert len(moments) > 60
    for number, (stopped, appended) in enumerate(moments):
        for seed in seeds_of(number):
            run = Unsynced(stopped.copy(), appended)
            synced = run.synced()
            run.disk.lose_power(seed)
            run.check_reopened(synced)
            run.check_reopened(len(run.appended))


@pytest.mark.parametrize("work", [truncates, deletes])
def test_power_failure_under_flush_os_leaves_no_gap(
    work: Callable[[PartitionLog, Acknowledged], None],
) -> None:
    """Truncation and deletion while syncs are still to come: the log opens, twice, and hangs together."""
    config = small_config(segment_bytes=450, flush=Flush.OS)

    disk, known = SimulatedDisk(delayed=1, holes=True), Acknowledged()
    log = FileStorage.open("/data", 1, disk=disk).open_log("t-0", TOPIC_ID, config, NOW_MS)
    moments = stopped_before_each_call(disk, lambda: work(log, known), known.copy)
    assert len(moments) > 60
    for seed, (stopped, told) in enumerate(moments):
        stopped.lose_power(seed)
        for _ in range(2):
            storage = FileStorage.open("/data", 1, disk=stopped)
            reopened = storage.open_log("t-0", TOPIC_ID, config, NOW_MS)
            check_whole(reopened, told)
            told.write(reopened, [b"z" * 30], epoch=20)
            storage.close()


def check_whole(log: PartitionLog, known: Acknowledged) -> None:
    offset = log.log_start_offset
    for header, data in log.batches(0, ALL):
        assert header.base_offset == offset
        assert log.epochs.epoch_at(offset) == header.partition_leader_epoch
        for record in decode_records(data):
            assert record.value in known.possible[record.offset]
        offset = header.next_offset
    assert offset == log.log_end_offset


def test_power_failure_while_a_closed_segment_is_cut() -> None:
    """Recovery itself may be interrupted before any call: never does a gap come to look intended."""
    calls = 0
    finished = False
    while not finished:
        for seed in range(6):
            run = Unsynced(SimulatedDisk(delayed=2, holes=True))
            run.disk.delay_ends = 0.0
            _, log = run.open()
            run.disk.calls_left = 30
            with suppress(PowerFailure):
                run.work(log)
            assert len(run.files()) > 2
            synced = run.synced()
            run.disk.lose_power(seed)
            run.disk.calls_left = calls
            finished = True
            try:
                run.open()
            except PowerFailure:
                finished = False
            run.disk.lose_power(seed + calls)
            run.check_reopened(synced)
        calls += 1
    assert calls > 6


def test_power_failure_during_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """The latest value of every key is there before, during and after."""
    config = small_config(segment_bytes=450, compact=True, delete=False)

    disk = SimulatedDisk()
    monkeypatch.setattr(cleaning_files, "Disk", lambda: disk)
    log = FileStorage.open("/data", 1, disk=disk).open_log("t-0", TOPIC_ID, config, NOW_MS)
    latest: dict[bytes, tuple[int, bytes]] = {}
    for at in range(30):
        key, value = b"k%d" % (at % 4), b"%03d" % at * 20
        latest[key] = append(log, batch([value], keys=[key])), value
    log.flush()

    def compact() -> None:
        plan = log.compaction_plan(NOW_MS, ALL)
        assert plan is not None
        log.finish_compaction(run_compaction(plan))

    moments = stopped_before_each_call(disk, compact, lambda: None)
    assert len(moments) > 30
    for number, (stopped, _) in enumerate(moments):
        for seed in seeds_of(number):
            check_after_compaction(stopped.copy(), seed, latest, config, monkeypatch)


def check_after_compaction(
    disk: SimulatedDisk,
    seed: int,
    latest: dict[bytes, tuple[int, bytes]],
    config: LogConfig,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cleaning_files, "Disk", lambda: disk)
    disk.lose_power(seed)
    storage = FileStorage.open("/data", 1, disk=disk)
    log = storage.open_log("t-0", TOPIC_ID, config, NOW_MS)
    found = {
        record.key: (record.offset, record.value)
        for _, data in log.batches(0, ALL)
        for record in decode_records(data)
    }
    assert found == latest
    assert log.log_end_offset == 30
    plan = log.compaction_plan(NOW_MS, ALL)
    if plan is not None:
        log.finish_compaction(run_compaction(plan))
    storage.close()
