"""What every backend's log does: one test body for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.storage import LogConfig, MemoryStorage, PartitionLog, Storage, StorageError
from penstock.types import ApiError, ErrorCode
from penstock.wire.batch import check_batch, iterate_headers, read_header, with_log_append_time
from penstock.wire.records import Record, decode_records, encode_batch
from tests.unit.storage.builders import (
    ALL,
    NOW_MS,
    TOPIC_ID,
    append,
    append_flushed,
    batch,
    small_config,
)

if TYPE_CHECKING:
    from uuid import UUID

OTHER_ID = TOPIC_ID.__class__(int=8)


def open_log(storage: Storage, config: LogConfig | None = None, now_ms: int = NOW_MS) -> PartitionLog:
    return storage.open_log("t-0", TOPIC_ID, config or LogConfig(), now_ms)


def offsets(log: PartitionLog, start: int = 0) -> list[int]:
    return [header.base_offset for header, _ in log.batches(start, ALL)]


def test_what_is_appended_is_read_back_with_offset_and_epoch(storage: Storage) -> None:
    log = open_log(storage)
    assert append(log, batch([b"a", b"b"]), leader_epoch=4) == 0
    assert append(log, memoryview(batch([b"c"], codec=4)), leader_epoch=5) == 2
    assert log.log_end_offset == 3
    assert log.flushed_end_offset == 0
    assert log.read(0, 1 << 20, end_offset=ALL) == b"", "nothing is served from the queue"
    log.flush()
    assert log.flushed_end_offset == 3
    data = memoryview(log.read(0, 1 << 20, end_offset=ALL))
    (first_at, first), (second_at, second) = iterate_headers(data)
    assert (first.base_offset, first.partition_leader_epoch) == (0, 4)
    assert (second.base_offset, second.partition_leader_epoch) == (2, 5)
    check_batch(data[first_at:second_at])
    check_batch(data[second_at:])
    assert [record.value for record in decode_records(data[second_at:])] == [b"c"]
    assert log.size_bytes == len(data)


def test_an_offset_inside_a_batch_gives_the_whole_batch(storage: Storage) -> None:
    log = open_log(storage)
    append(log, batch([b"a"] * 5))
    append_flushed(log, batch([b"b"] * 5))
    for offset in range(5, 10):
        assert read_header(log.read(offset, 1, end_offset=ALL)).base_offset == 5


def test_ends_bound_what_is_read(storage: Storage) -> None:
    log = open_log(storage)
    for _ in range(5):
        append(log, batch([b"x", b"y"]))
    log.flush()
    assert log.read(10, 1000, end_offset=ALL) == b""
    assert log.read(4, 1000, end_offset=4) == b""
    sizes = {end: len(log.read(4, 1 << 20, end_offset=end)) for end in (5, 6, 7, 8, 10)}
    one = len(batch([b"x", b"y"]))
    assert sizes == {5: one, 6: one, 7: 2 * one, 8: 2 * one, 10: 3 * one}


def test_below_the_log_start_is_out_of_range(storage: Storage) -> None:
    log = open_log(storage)
    for _ in range(3):
        append_flushed(log, batch())
    log.delete_records_before(2)
    with pytest.raises(ApiError) as caught:
        log.read(1, 1000, end_offset=ALL)
    assert caught.value.code is ErrorCode.offset_out_of_range
    assert log.read(2, 1000, end_offset=ALL)


def test_a_batch_larger_than_asked_for_comes_anyway(storage: Storage) -> None:
    log = open_log(storage)
    big = batch([b"x" * 300_000])
    append(log, big)
    append_flushed(log, big)
    assert len(log.read(0, 10, end_offset=ALL)) == len(big)
    assert len(log.read(1, len(big) - 1, end_offset=ALL)) == len(big)


def test_segments_roll_by_size_and_reads_stop_at_their_border(storage: Storage) -> None:
    log = open_log(storage, small_config(segment_bytes=500))
    for _ in range(10):
        append(log, batch([b"x" * 130]))
    log.flush()
    size = len(batch([b"x" * 130]))
    assert len(log.read(0, 1 << 20, end_offset=ALL)) == 2 * size
    assert len(log.read(1, 1 << 20, end_offset=ALL)) == size
    assert offsets(log) == list(range(10))


def test_segments_roll_by_time(storage: Storage) -> None:
    log = open_log(storage, LogConfig(segment_ms=1000))
    for timestamp in (0, 500, 1000, 1001, 1500, 2100):
        append_flushed(log, batch(timestamp=NOW_MS + timestamp))
    one = len(batch())
    assert [len(log.read(at, ALL, end_offset=ALL)) // one for at in (0, 3, 5)] == [3, 2, 1]


def test_clean_restart_keeps_everything(storage: Storage) -> None:
    log = open_log(storage, small_config())
    for at in range(20):
        data = batch([b"x" * 90], producer_id=4, producer_epoch=1, base_sequence=at)
        append_flushed(log, data, leader_epoch=at // 5)
    log.delete_records_before(7)
    expected = offsets(log)
    entries = log.epochs.entries
    log.close()
    log = open_log(storage, small_config())
    assert log.recovery == []
    assert offsets(log) == expected
    assert (log.log_start_offset, log.log_end_offset, log.flushed_end_offset) == (7, 20, 20)
    assert log.epochs.entries == entries == [(1, 7), (2, 10), (3, 15)]
    duplicate = log.producers.check(read_header(batch(producer_id=4, producer_epoch=1, base_sequence=17)))
    assert duplicate == (17, 17, NOW_MS)
    assert append_flushed(log, batch(), leader_epoch=4) == 20


def test_an_epoch_without_records_is_kept(storage: Storage) -> None:
    log = open_log(storage)
    append_flushed(log, batch(), leader_epoch=1)
    log.epochs.assign(2, log.log_end_offset)
    job = log.take_flush()
    assert job is not None
    job.run()
    log.finish_flush(job)
    assert log.take_flush() is None
    log.abandon()
    assert open_log(storage).epochs.entries == [(1, 0), (2, 1)]


def test_producer_state_survives_retention_of_its_batches(storage: Storage) -> None:
    config = small_config(retention_bytes=500)
    log = open_log(storage, config)
    append_flushed(log, batch(producer_id=1, producer_epoch=0, base_sequence=0))
    for _ in range(30):
        append_flushed(log, batch([b"x" * 90]))
    lines = log.apply_retention(now_ms=NOW_MS, high_watermark=ALL)
    assert lines
    assert "retention.bytes=500" in lines[0]
    assert log.log_start_offset > 0
    for clean in (True, False):
        if clean:
            log.close()
        else:
            log.abandon()
        log = open_log(storage, config)
        assert log.producers.check(read_header(batch(producer_id=1, producer_epoch=0, base_sequence=0))) == (
            0,
            0,
            NOW_MS,
        )


def test_truncation_rolls_back_producers_and_epochs(storage: Storage) -> None:
    log = open_log(storage, small_config())
    for at in range(20):
        data = batch([b"x" * 90], producer_id=4, producer_epoch=0, base_sequence=at)
        append_flushed(log, data, leader_epoch=at // 5)
    log.truncate_to(8)
    assert log.log_end_offset == log.flushed_end_offset == 8
    assert offsets(log) == list(range(8))
    assert log.epochs.entries == [(0, 0), (1, 5)]
    state = log.producers.get(4)
    assert state is not None
    assert [entry.base_offset for entry in state.batches] == [3, 4, 5, 6, 7]
    assert log.producers.check(read_header(batch(producer_id=4, producer_epoch=0, base_sequence=8))) is None
    assert append_flushed(log, batch(), leader_epoch=9) == 8
    log.close()
    assert offsets(open_log(storage, small_config())) == list(range(9))


def test_truncation_of_what_is_only_queued(storage: Storage) -> None:
    log = open_log(storage)
    for _ in range(4):
        append(log, batch())
    log.truncate_to(2)
    assert log.log_end_offset == 2
    log.flush()
    assert offsets(log) == [0, 1]
    append(log, batch())
    log.truncate_to(0)
    assert append_flushed(log, batch()) == 0
    assert offsets(log) == [0]


def test_retention_by_time_drops_whole_segments_below_the_high_watermark(storage: Storage) -> None:
    log = open_log(storage, small_config(retention_ms=1000))
    for at in range(40):
        append_flushed(log, batch([b"x" * 90], timestamp=NOW_MS + at))
    assert log.apply_retention(now_ms=NOW_MS + 1000, high_watermark=40) == []
    assert log.apply_retention(now_ms=NOW_MS + 1020, high_watermark=0) == []
    assert log.apply_retention(now_ms=NOW_MS + 1020, high_watermark=10)
    assert 0 < log.log_start_offset <= 10
    lines = log.apply_retention(now_ms=NOW_MS + 1020, high_watermark=40)
    assert all("retention.ms=1000" in line for line in lines)
    start = log.log_start_offset
    assert 10 < start <= 20
    assert offsets(log) == list(range(start, 40))
    log.close()
    assert open_log(storage, small_config()).log_start_offset == start


def test_when_all_is_expired_the_active_segment_goes_too(storage: Storage) -> None:
    log = open_log(storage, LogConfig(retention_ms=1000))
    for _ in range(3):
        append_flushed(log, batch())
    assert log.apply_retention(now_ms=NOW_MS + 1001, high_watermark=2) == []
    assert len(log.apply_retention(now_ms=NOW_MS + 1001, high_watermark=3)) == 1
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (3, 3, 0)
    assert log.apply_retention(now_ms=NOW_MS + 5001, high_watermark=3) == []
    log.abandon()
    log = open_log(storage)
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)
    assert append_flushed(log, batch()) == 3


def test_without_the_delete_policy_nothing_expires(storage: Storage) -> None:
    log = open_log(storage, small_config(retention_ms=1, retention_bytes=1, delete=False))
    for _ in range(30):
        append_flushed(log, batch([b"x" * 90]))
    assert log.apply_retention(now_ms=NOW_MS + 10_000_000, high_watermark=30) == []
    log.reconfigure(small_config(retention_ms=1))
    assert log.apply_retention(now_ms=NOW_MS + 10_000_000, high_watermark=30)


def test_delete_records(storage: Storage) -> None:
    log = open_log(storage, small_config())
    for _ in range(30):
        append_flushed(log, batch([b"x" * 90]))
    size = log.size_bytes
    log.delete_records_before(17)
    assert log.log_start_offset == 17
    assert log.size_bytes < size
    log.delete_records_before(3)
    assert log.log_start_offset == 17
    with pytest.raises(ApiError) as caught:
        log.delete_records_before(31)
    assert caught.value.code is ErrorCode.offset_out_of_range
    log.abandon()
    log = open_log(storage, small_config())
    assert log.log_start_offset == 17
    log.delete_records_before(30)
    assert offsets(log) == []
    assert append_flushed(log, batch()) == 30


def test_find_by_time_opens_batches_of_every_kind(storage: Storage) -> None:
    log = open_log(storage)
    append(log, batch([b"a", b"b", b"c"], timestamps=[100, 300, 200], codec=2))
    stamped = with_log_append_time(batch([b"d", b"e"], timestamps=[1, 2]), 400)
    append(log, stamped, leader_epoch=1)
    log.flush()
    assert log.find_by_time(0, end_offset=ALL) == (0, 100, 0)
    assert log.find_by_time(101, end_offset=ALL) == (1, 300, 0)
    assert log.find_by_time(301, end_offset=ALL) == (3, 400, 1)
    assert log.find_by_time(401, end_offset=ALL) is None
    assert log.find_by_time(101, end_offset=1) is None
    assert log.max_timestamp(end_offset=ALL) == (3, 400, 1)
    assert log.max_timestamp(end_offset=3) == (1, 300, 0)
    assert log.max_timestamp(end_offset=1) == (0, 100, 0)
    assert log.max_timestamp(end_offset=0) is None


def test_producers_expire(storage: Storage) -> None:
    log = open_log(storage, LogConfig(producer_expiration_ms=1000))
    append_flushed(log, batch(producer_id=1, producer_epoch=0, base_sequence=0), now_ms=NOW_MS)
    append_flushed(log, batch(producer_id=2, producer_epoch=0, base_sequence=0), now_ms=NOW_MS + 500)
    log.apply_retention(now_ms=NOW_MS + 1000, high_watermark=2)
    assert log.producers.get(1) is None
    assert log.producers.get(2) is not None


def test_logs_are_listed_and_deleted(storage: Storage) -> None:
    def listed() -> list[tuple[str, UUID]]:
        return storage.logs()

    log = open_log(storage)
    storage.open_log("u-3", OTHER_ID, LogConfig(), NOW_MS)
    append_flushed(log, batch())
    assert listed() == [("t-0", TOPIC_ID), ("u-3", OTHER_ID)]
    with pytest.raises(StorageError, match="is open already"):
        open_log(storage)
    storage.delete_log("t-0")
    assert listed() == [("u-3", OTHER_ID)]
    log = storage.open_log("t-0", OTHER_ID, LogConfig(), NOW_MS)
    assert log.log_end_offset == 0
    log.close()
    with pytest.raises(StorageError, match="belongs to topic id"):
        open_log(storage)


def test_a_log_that_is_set_aside_is_nobody_s_and_its_name_is_free(storage: Storage) -> None:
    log = open_log(storage)
    append_flushed(log, batch())
    with pytest.raises(StorageError, match="t-0 is open"):
        storage.set_aside("t-0")
    log.close()
    storage.set_aside("t-0")
    assert storage.logs() == []
    log = storage.open_log("t-0", OTHER_ID, LogConfig(), NOW_MS)
    assert log.log_end_offset == 0
    log.close()


def test_empty_log_restarts(storage: Storage) -> None:
    open_log(storage).close()
    log = open_log(storage)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (0, 0, 0)
    assert log.read(0, 10, end_offset=ALL) == b""
    assert log.find_by_time(0, end_offset=ALL) is None
    assert log.max_timestamp(end_offset=ALL) is None
    log.truncate_to(0)
    assert log.apply_retention(now_ms=NOW_MS, high_watermark=0) == []


def test_a_closed_log_takes_nothing(storage: Storage) -> None:
    log = open_log(storage)
    append(log, batch())
    log.close()
    log.close()
    assert log.flushed_end_offset == 1
    with pytest.raises(StorageError, match="t-0 is closed"):
        append(log, batch())
    assert log.take_flush() is None
    assert offsets(open_log(storage)) == [0]


def test_the_batch_is_not_copied_before_the_flush(storage: Storage) -> None:
    log = open_log(storage)
    data = bytearray(encode_batch([Record(0, NOW_MS, None, b"abc")]))
    log.append(data, read_header(data), leader_epoch=0, now_ms=NOW_MS)
    job = log.take_flush()
    assert job is not None
    rest = job.runs[0].buffers[1]
    assert isinstance(rest, memoryview)
    assert rest.obj is data
    job.run()
    log.finish_flush(job)


# Following a leader


def leaders_log(*epochs: int, **fields: int) -> PartitionLog:
    """Two records in a batch for each epoch, in memory and flushed."""
    log = open_log(MemoryStorage(OTHER_ID))
    for at, epoch in enumerate(epochs):
        sequence = {"base_sequence": 2 * at} if fields else {}
        append(log, batch([b"%d" % at, b"x"], **fields, **sequence), leader_epoch=epoch)
    log.flush()
    return log


def everything(log: PartitionLog, offset: int = 0) -> bytes:
    return b"".join(bytes(data) for _, data in log.batches(offset, ALL))


def test_what_is_fetched_is_the_leaders_log_byte_for_byte(storage: Storage) -> None:
    leader = leaders_log(0, 0, 3, 5, producer_id=9, producer_epoch=0)
    log = open_log(storage, small_config(segment_bytes=150))
    log.append_fetched(everything(leader), now_ms=NOW_MS)
    assert (log.log_end_offset, log.flushed_end_offset) == (8, 0)
    assert everything(log) == b"", "nothing is served from the queue"
    log.flush()
    for _ in range(2):
        assert everything(log) == everything(leader)
        assert log.epochs.entries == leader.epochs.entries == [(0, 0), (3, 4), (5, 6)]
        state = log.producers.get(9)
        assert state is not None
        assert (state.batches[-1].last_offset, state.batches[-1].last_sequence) == (7, 7)
        log.close()
        log = open_log(storage, small_config(segment_bytes=150))


def test_what_is_fetched_may_come_in_pieces(storage: Storage) -> None:
    leader = leaders_log(0, 1, 2)
    log = open_log(storage)
    while log.log_end_offset < 6:
        log.append_fetched(leader.read(log.log_end_offset, 1, end_offset=ALL), now_ms=NOW_MS)
        log.flush()
    assert everything(log) == everything(leader)


def test_offsets_that_compaction_took_stay_missing(storage: Storage) -> None:
    leader = leaders_log(0, 1, 2, 2)
    first, _, _, last = (bytes(data) for _, data in leader.batches(0, ALL))
    log = open_log(storage)
    log.append_fetched(first + last, now_ms=NOW_MS)
    log.flush()
    for _ in range(2):
        assert offsets(log) == [0, 6]
        assert offsets(log, 3) == [6]
        assert (log.log_end_offset, log.epochs.entries) == (8, [(0, 0), (2, 6)])
        assert append_flushed(log, batch(), leader_epoch=3) == 8
        log.truncate_to(8)
        log.close()
        log = open_log(storage)


def test_a_log_may_begin_with_a_gap(storage: Storage) -> None:
    leader = leaders_log(4, 4, 4)
    log = open_log(storage)
    log.append_fetched(everything(leader, 2), now_ms=NOW_MS)
    log.flush()
    for _ in range(2):
        assert (log.log_end_offset, offsets(log), log.epochs.latest) == (6, [2, 4], 4)
        log.close()
        log = open_log(storage)


def test_what_does_not_fit_is_refused_as_a_whole(storage: Storage) -> None:
    leader = leaders_log(0, 2, 3)
    batches = [bytes(data) for _, data in leader.batches(0, ALL)]
    log = open_log(storage)
    log.append_fetched(b"".join(batches[:2]), now_ms=NOW_MS)
    log.flush()
    damaged = bytearray(batches[2])
    damaged[-1] ^= 1
    (older,) = (bytes(data) for _, data in leaders_log(1, 1, 1).batches(4, ALL))
    for wrong in (
        batches[1],  # it is there
        batches[2] + batches[2],  # twice
        older,  # of an epoch before the last
        bytes(damaged),
        batches[2][:-1],
        b"nonsense",
    ):
        with pytest.raises(StorageError, match="t-0: what was fetched is damaged"):
            log.append_fetched(wrong, now_ms=NOW_MS)
        assert (log.log_end_offset, log.epochs.latest, log.error) == (4, 2, None)
    log.append_fetched(batches[2], now_ms=NOW_MS)
    log.flush()
    assert everything(log) == everything(leader)


def test_nothing_is_fetched_into_a_closed_log(storage: Storage) -> None:
    leader = leaders_log(0)
    log = open_log(storage)
    log.close()
    with pytest.raises(StorageError, match="t-0 is closed"):
        log.append_fetched(everything(leader), now_ms=NOW_MS)
    with pytest.raises(StorageError, match="t-0 is closed"):
        log.restart_at(5)


def test_an_epoch_begins_before_its_first_record(storage: Storage) -> None:
    log = open_log(storage)
    append_flushed(log, batch([b"a", b"b"]), leader_epoch=1)
    log.begin_epoch(1)
    assert log.take_flush() is None, "it had begun"
    log.begin_epoch(4)
    assert log.epochs.entries == [(1, 0), (4, 2)]
    log.flush()
    assert log.epochs.end_offset(1, log.log_end_offset) == (1, 2)
    log.close()
    log = open_log(storage)
    assert log.epochs.entries == [(1, 0), (4, 2)]
    log.begin_epoch(5)
    assert log.epochs.entries == [(1, 0), (5, 2)], "an epoch that brought nothing is forgotten"
    append_flushed(log, batch(), leader_epoch=5)
    with pytest.raises(ValueError, match="leader epoch 3 after 5"):
        log.begin_epoch(3)


def test_truncation_takes_an_epoch_that_brought_nothing(storage: Storage) -> None:
    """A follower that led for a moment must be able to take records of an earlier epoch from its leader."""
    leader = leaders_log(1, 2)
    log = open_log(storage)
    log.append_fetched(leader.read(0, 1, end_offset=ALL), now_ms=NOW_MS)
    log.begin_epoch(3)
    log.flush()
    with pytest.raises(StorageError, match="after offset 2 of epoch 3"):
        log.append_fetched(everything(leader, 2), now_ms=NOW_MS)
    log.truncate_to(2)
    assert log.epochs.latest == 1
    log.append_fetched(everything(leader, 2), now_ms=NOW_MS)
    log.flush()
    assert everything(log) == everything(leader)


@pytest.mark.parametrize("new_start", [3, 50])
def test_a_log_begins_anew(storage: Storage, new_start: int) -> None:
    log = open_log(storage, small_config(segment_bytes=150))
    for at in range(8):
        data = batch(producer_id=9, producer_epoch=0, base_sequence=at)
        append_flushed(log, data, leader_epoch=at // 4)
    log.delete_records_before(2)
    log.restart_at(new_start)
    for _ in range(2):
        assert (log.log_start_offset, log.flushed_end_offset, log.log_end_offset) == (new_start,) * 3
        assert (offsets(log, new_start), log.epochs.latest, log.producers.get(9)) == ([], -1, None)
        log.flush()
        log.close()
        log = open_log(storage, small_config(segment_bytes=150))
        assert log.recovery == []
    append_flushed(log, batch(), leader_epoch=7)
    assert (offsets(log, new_start), log.epochs.entries) == ([new_start], [(7, new_start)])


def test_an_empty_log_begins_anew(storage: Storage) -> None:
    log = open_log(storage)
    log.begin_epoch(3)
    log.restart_at(10)
    assert log.epochs.latest == -1
    assert append_flushed(log, batch(), leader_epoch=5) == 10
    log.close()
    log = open_log(storage)
    assert (log.log_start_offset, log.log_end_offset, log.epochs.entries) == (10, 11, [(5, 10)])


def test_a_log_that_began_within_a_batch_begins_anew(storage: Storage) -> None:
    leader = open_log(storage)
    append_flushed(leader, batch([b"a", b"b", b"c"]), leader_epoch=4)
    records = bytes(leader.read(2, 1_000, end_offset=3))
    log = storage.open_log("copy-0", TOPIC_ID, LogConfig(), NOW_MS)
    log.restart_at(2)
    log.append_fetched(records, now_ms=NOW_MS)
    log.flush()
    log.restart_at(10)
    for _ in range(2):
        assert (log.log_start_offset, log.log_end_offset, log.epochs.latest) == (10, 10, -1)
        log.close()
        log = storage.open_log("copy-0", TOPIC_ID, LogConfig(), NOW_MS)


def test_notes_beside_the_log(storage: Storage) -> None:
    log = open_log(storage)
    assert log.get_note("a-note") is None
    append_flushed(log, batch())
    log.put_note("a-note", {"epoch": 7, "names": ["x"]})
    log.put_note("another", 1)
    log.put_note("a-note", {"epoch": 8})
    for _ in range(2):
        assert (log.get_note("a-note"), log.get_note("another")) == ({"epoch": 8}, 1)
        assert offsets(log) == [0]
        log.close()
        log = open_log(storage)
        assert log.recovery == []
    log.restart_at(5)
    assert log.get_note("another") == 1, "it is not a part of the log"
