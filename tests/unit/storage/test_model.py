"""A log against a list: whatever is done to both, they say the same. Every backend."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from penstock.storage import FileStorage, Flush, LogConfig, MemoryStorage, PartitionLog, Storage
from penstock.storage.postgres import PostgresStorage
from penstock.wire.batch import iterate_headers, read_header
from penstock.wire.records import decode_records
from tests.support.examples import EXAMPLES
from tests.unit.storage.builders import ALL, NOW_MS, TOPIC_ID, append, batch
from tests.unit.storage.conftest import NODE_IDS

if TYPE_CHECKING:
    from tests.support.postgres import PostgresProcess


@dataclass
class Entry:
    base: int
    values: list[bytes]
    timestamps: list[int]
    epoch: int
    producer: tuple[int, int] | None

    @property
    def end(self) -> int:
        return self.base + len(self.values)


class LogMachine(RuleBasedStateMachine):
    """The model is the list of batches that were appended and not removed."""

    def open_storage(self) -> Storage:
        raise NotImplementedError

    @initialize(
        segment_bytes=st.sampled_from([300, 1000, 1 << 30]),
        interval=st.sampled_from([1, 150, 1 << 20]),
        flush=st.sampled_from(list(Flush)),
    )
    def start(self, segment_bytes: int, interval: int, flush: Flush) -> None:
        self.config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=interval, flush=flush)
        self.entries: list[Entry] = []
        self.log_start = 0
        self.end = 0
        self.epoch = 0
        self.sequences: dict[int, int] = {}
        self.storage = self.open_storage()
        self.open_log()

    def open_log(self) -> None:
        self.log: PartitionLog = self.storage.open_log("t-0", TOPIC_ID, self.config, NOW_MS)

    @rule(
        sizes=st.lists(st.integers(0, 200), min_size=1, max_size=4),
        times=st.lists(st.integers(0, 1000), min_size=4, max_size=4),
        producer=st.sampled_from([None, 1, 2]),
        flush=st.booleans(),
    )
    def append(self, sizes: list[int], times: list[int], producer: int | None, flush: bool) -> None:
        values = [bytes([at % 251]) * size for at, size in enumerate(sizes)]
        timestamps = times[: len(sizes)]
        sequence = self.sequences.get(producer, 0) if producer else -1
        data = batch(
            values,
            timestamps=timestamps,
            producer_id=producer or -1,
            producer_epoch=0 if producer else -1,
            base_sequence=sequence,
        )
        assert self.log.producers.check(read_header(data)) is None
        base = append(self.log, data, leader_epoch=self.epoch)
        assert base == self.end
        entry = Entry(base, values, timestamps, self.epoch, (producer, sequence) if producer else None)
        self.entries.append(entry)
        self.end = entry.end
        if producer:
            self.sequences[producer] = sequence + len(values)
        if flush:
            self.log.flush()
            assert self.log.flushed_end_offset == self.end

    @rule()
    def new_epoch(self) -> None:
        self.epoch += 1

    @rule(at=st.floats(0, 1))
    def truncate(self, at: float) -> None:
        offset = round(self.end * at)
        cut = [entry for entry in self.entries if entry.end > offset]
        self.log.truncate_to(offset)
        if offset >= self.end:
            return
        self.log_start = min(self.log_start, offset)
        self.end = max(self.log_start, min([offset] + [entry.base for entry in cut]))
        self.entries = [entry for entry in self.entries if entry.end <= offset]
        self.sequences = {}
        for entry in self.entries:
            if entry.producer:
                self.sequences[entry.producer[0]] = entry.producer[1] + len(entry.values)
        for producer in {1, 2} - self.sequences.keys():
            state = self.log.producers.get(producer)
            if state is not None and state.batches:  # whose records were deleted, which is not forgetting
                assert state.batches[-1].last_offset < self.log_start
                self.sequences[producer] = state.batches[-1].last_sequence + 1

    @rule(at=st.floats(0, 1))
    def delete_records(self, at: float) -> None:
        offset = round(self.log.flushed_end_offset * at)
        self.log.delete_records_before(offset)
        self.log_start = max(self.log_start, offset)
        self.entries = [entry for entry in self.entries if entry.end > self.log_start]

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        gap = bool(self.entries) and self.entries[-1].end != self.end
        self.log.flush()
        if clean or gap:
            self.log.close()
        else:
            self.log.abandon()
        self.open_log()
        assert self.log.recovery == []

    @invariant()
    def ends_agree(self) -> None:
        assert self.log.log_end_offset == self.end
        assert self.log.log_start_offset == self.log_start
        assert self.log.error is None

    @rule(at=st.floats(0, 1), size_max=st.integers(1, 2000), end=st.floats(0, 1))
    def read(self, at: float, size_max: int, end: float) -> None:
        visible = self.log.flushed_end_offset
        offset = self.log_start + round((visible - self.log_start) * at)
        end_offset = round(visible * end)
        expected = [
            entry
            for entry in self.entries
            if entry.end > offset and entry.base < min(end_offset, visible) and entry.end <= visible
        ]
        data = self.log.read(offset, size_max, end_offset=end_offset)
        if offset >= end_offset or not expected:
            assert not data
            return
        headers = list(iterate_headers(data))
        assert headers[-1][0] + headers[-1][1].size == len(data), "whole batches"
        assert [header.base_offset for _, header in headers] == [
            entry.base for entry in expected[: len(headers)]
        ]
        assert len(data) <= size_max or len(headers) == 1

    @rule()
    def read_all(self) -> None:
        visible = self.log.flushed_end_offset
        expected = [entry for entry in self.entries if entry.end <= visible]
        found = list(self.log.batches(self.log_start, ALL))
        assert [header.base_offset for header, _ in found] == [entry.base for entry in expected]
        for (header, data), entry in zip(found, expected, strict=True):
            assert [record.value for record in decode_records(data)] == entry.values
            assert header.partition_leader_epoch == entry.epoch

    @rule(timestamp=st.integers(0, 1001), end=st.floats(0, 1))
    def find(self, timestamp: int, end: float) -> None:
        end_offset = round(self.log.flushed_end_offset * end)
        records = [
            (entry.base + at, time, entry.epoch)
            for entry in self.entries
            for at, time in enumerate(entry.timestamps)
            if self.log_start <= entry.base + at < end_offset
        ]
        found = self.log.find_by_time(timestamp, end_offset=end_offset)
        assert found == next((record for record in records if record[1] >= timestamp), None)
        largest = max((time for _, time, _ in records), default=None)
        newest = self.log.max_timestamp(end_offset=end_offset)
        assert newest == next((record for record in records if record[1] == largest), None)

    @rule()
    def epochs(self) -> None:
        for epoch in range(self.epoch + 1):
            mine = [entry for entry in self.entries if entry.epoch == epoch]
            if not mine or epoch == self.log.epochs.latest:
                continue
            later = [entry.base for entry in self.entries if entry.epoch > epoch]
            assert self.log.epochs.end_offset(epoch, self.end) == (epoch, min(later))

    @precondition(lambda self: self.entries)
    @rule()
    def producers(self) -> None:
        known: dict[int, list[Entry]] = {}
        for entry in self.entries:
            if entry.producer:
                known.setdefault(entry.producer[0], []).append(entry)
        for producer_id, entries in known.items():
            state = self.log.producers.get(producer_id)
            assert state is not None
            recent = [(item.base_sequence, item.base_offset) for item in state.batches]
            expected = [(entry.producer[1], entry.base) for entry in entries if entry.producer]
            assert recent[-len(expected[-5:]) :] == expected[-5:]

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close()


class FileMachine(LogMachine):
    def open_storage(self) -> FileStorage:
        self.folder = tempfile.mkdtemp(prefix="penstock-model-")
        return FileStorage.open(self.folder, 1, open_files_max=2)

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "folder"):
            self.storage.close()
            shutil.rmtree(self.folder)


class MemoryMachine(LogMachine):
    def open_storage(self) -> MemoryStorage:
        return MemoryStorage(UUID(int=1))


class PostgresMachine(LogMachine):
    url: str

    def open_storage(self) -> PostgresStorage:
        return PostgresStorage.open(self.url, next(NODE_IDS))

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "storage"):
            self.storage.close()


_SETTINGS = settings(
    max_examples=EXAMPLES,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
TestFile = FileMachine.TestCase
TestFile.settings = _SETTINGS
TestMemory = MemoryMachine.TestCase
TestMemory.settings = _SETTINGS


def test_postgresql(postgres: PostgresProcess) -> None:
    PostgresMachine.url = postgres.url()
    run_state_machine_as_test(PostgresMachine, settings=settings(_SETTINGS, max_examples=EXAMPLES // 4))
