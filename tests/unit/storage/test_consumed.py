"""A log whose front is removed gives the disk back, on every backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.storage import LogConfig, PartitionLog
from penstock.storage.retention import ROLL_BYTES_MIN
from tests.unit.storage.builders import ALL, NOW_MS, TOPIC_ID, append, append_flushed, batch, small_config

if TYPE_CHECKING:
    from penstock.storage import Storage

RECORD_BYTES = 8 * 1024
ENOUGH = ROLL_BYTES_MIN // RECORD_BYTES + 1


def open_log(storage: Storage, config: LogConfig | None = None) -> PartitionLog:
    return storage.open_log("t-0", TOPIC_ID, config or LogConfig(), NOW_MS)


def fill(log: PartitionLog, count: int = ENOUGH, size: int = RECORD_BYTES) -> None:
    for _ in range(count):
        append_flushed(log, batch([b"x" * size], producer_id=4, producer_epoch=0, base_sequence=0))


def offsets(log: PartitionLog) -> list[int]:
    return [header.base_offset for header, _ in log.batches(0, ALL)]


@pytest.mark.parametrize("is_clean", [True, False])
def test_when_all_is_removed_nothing_is_left(storage: Storage, is_clean: bool) -> None:
    log = open_log(storage)
    fill(log)
    log.delete_records_before(ENOUGH)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (ENOUGH, ENOUGH, 0)
    log.close() if is_clean else log.abandon()
    log = open_log(storage)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (ENOUGH, ENOUGH, 0)
    assert log.producers.get(4) is not None, "who wrote is remembered, though all that was written is gone"
    assert append_flushed(log, batch()) == ENOUGH
    assert offsets(log) == [ENOUGH]


def test_a_little_stays_where_it_is(storage: Storage) -> None:
    log = open_log(storage)
    fill(log, 3, 100)
    size = log.size_bytes
    log.delete_records_before(3)
    assert (log.log_start_offset, log.size_bytes) == (3, size)


def test_while_more_is_written_the_segment_is_closed_and_goes_in_its_turn(storage: Storage) -> None:
    log = open_log(storage)
    fill(log, 2 * ENOUGH)
    size = log.size_bytes
    log.delete_records_before(ENOUGH - 1)
    assert log.size_bytes == size
    fill(log, 1)
    assert log.size_bytes > size, "less than half of it was behind: it goes on growing"
    log.delete_records_before(2 * ENOUGH)
    fill(log, 1, 10)
    log.delete_records_before(2 * ENOUGH + 1)
    assert log.size_bytes < RECORD_BYTES
    assert offsets(log) == [2 * ENOUGH + 1]
    log.abandon()
    assert offsets(open_log(storage)) == [2 * ENOUGH + 1]


def test_what_a_job_in_flight_prevents_is_done_later(storage: Storage) -> None:
    log = open_log(storage)
    fill(log)
    log.begin_epoch(3)
    job = log.take_flush()
    assert job is not None
    log.delete_records_before(ENOUGH)
    assert log.size_bytes > 0
    job.run()
    log.finish_flush(job)
    assert log.apply_retention(now_ms=NOW_MS, high_watermark=ENOUGH) == []
    assert log.size_bytes == 0


def test_a_new_segment_that_waits_to_be_written_is_not_begun_twice(storage: Storage) -> None:
    log = open_log(storage)
    fill(log)
    append(log, batch([b"queued"]))
    log.delete_records_before(ENOUGH)
    log.apply_retention(now_ms=NOW_MS, high_watermark=ENOUGH)
    log.delete_records_before(ENOUGH)
    append_flushed(log, batch([b"next"]))
    assert offsets(log) == [ENOUGH, ENOUGH + 1]
    log.delete_records_before(ENOUGH + 1)
    assert offsets(log) == [ENOUGH + 1]
    assert log.size_bytes < 1_000
    log.truncate_to(ENOUGH + 1)
    assert append_flushed(log, batch()) == ENOUGH + 1


def test_where_the_log_would_start_within_limits(storage: Storage) -> None:
    log = open_log(storage, small_config(retention_ms=-1, retention_bytes=-1))
    for at in range(40):
        append_flushed(log, batch([b"x" * 90], timestamp=NOW_MS + at))

    def start(retention_ms: int = -1, retention_bytes: int = -1, now_ms: int = NOW_MS, end: int = 40) -> int:
        return log.start_within(
            retention_ms=retention_ms, retention_bytes=retention_bytes, now_ms=now_ms, high_watermark=end
        )

    assert start() == 0
    by_time = start(retention_ms=1_000, now_ms=NOW_MS + 1_020)
    assert 10 < by_time <= 20
    assert 0 < start(retention_ms=1_000, now_ms=NOW_MS + 1_020, end=10) <= 10
    assert 20 < start(retention_bytes=2_000) < 40
    assert log.log_start_offset == 0, "it was only a question"
    log.delete_records_before(by_time)
    assert start() == by_time
    assert start(retention_ms=1_000, now_ms=NOW_MS + 5_000) == 40
