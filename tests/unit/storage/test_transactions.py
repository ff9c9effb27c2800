"""What a log knows of transactions, whatever happens to it: one test body for every backend."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.storage import LogConfig
from penstock.storage.compaction import run_compaction
from penstock.storage.transactions import Transactions
from penstock.types import ApiError, ErrorCode
from penstock.wire.batch import TRANSACTIONAL, read_header
from penstock.wire.control import Marker, encode_marker, maybe_marker
from penstock.wire.records import Record, decode_records, encode_batch
from tests.support.steps import steps
from tests.unit.storage.builders import ALL, NOW_MS, TOPIC_ID, append, append_flushed, small_config

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.storage import PartitionLog, Storage

COMMIT, ABORT = Marker(is_commit=True, coordinator_epoch=3), Marker(is_commit=False, coordinator_epoch=3)


def open_log(storage: Storage, config: LogConfig | None = None) -> PartitionLog:
    return storage.open_log("t-0", TOPIC_ID, config or LogConfig(), NOW_MS)


def write(log: PartitionLog, producer_id: int, key: bytes = b"k", value: bytes = b"v" * 60) -> int:
    data = encode_batch(
        [Record(0, NOW_MS, key, value)],
        attributes=TRANSACTIONAL,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence_after(log, producer_id),
    )
    return append_flushed(log, data)


def sequence_after(log: PartitionLog, producer_id: int) -> int:
    state = log.producers.get(producer_id)
    return state.batches[-1].last_sequence + 1 if state is not None and state.batches else 0


def end(log: PartitionLog, producer_id: int, marker: Marker, epoch: int = 0) -> int:
    return append_flushed(log, encode_marker(marker, producer_id, epoch, NOW_MS))


def view(log: PartitionLog) -> tuple[dict[int, int], int, list[tuple[int, int, int]]]:
    """Open transactions, the last stable offset, and what was aborted."""
    transactions = log.producers.transactions
    stable = transactions.last_stable_offset(log.log_end_offset)
    return dict(transactions.open), stable, [each[:3] for each in transactions.aborted_between(0, ALL)]


@pytest.mark.parametrize("marker", [COMMIT, ABORT])
def test_a_marker_is_read_back(marker: Marker) -> None:
    data = encode_marker(marker, 7, 2, NOW_MS)
    header = read_header(data)
    assert (header.is_control, header.is_transactional) == (True, True)
    assert (header.producer_id, header.producer_epoch, header.records_count) == (7, 2, 1)
    assert maybe_marker(data, header) == marker


def test_the_last_stable_offset_is_where_the_first_open_transaction_begins(storage: Storage) -> None:
    log = open_log(storage)
    write(log, 1)
    write(log, 2)
    write(log, 1)
    assert view(log) == ({1: 0, 2: 1}, 0, [])
    end(log, 1, COMMIT)
    assert view(log) == ({2: 1}, 1, [])
    end(log, 2, ABORT)
    assert view(log) == ({}, 5, [(2, 1, 4)])


def test_a_marker_that_is_not_committed_ends_nothing_for_readers(storage: Storage) -> None:
    log = open_log(storage)
    write(log, 1)
    end(log, 1, COMMIT)
    transactions = log.producers.transactions
    assert transactions.last_stable_offset(high_watermark=1) == 0
    assert transactions.last_stable_offset(high_watermark=2) == 2


def scenario(log: PartitionLog) -> None:
    for at in range(6):
        write(log, 1, b"a%d" % at)
        write(log, 2, b"b%d" % at)
        end(log, 1, ABORT if at % 2 else COMMIT)
        if at % 3 == 2:
            end(log, 2, ABORT)
    write(log, 3)


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean stop", "crash"])
def test_a_restart_keeps_what_is_known(storage: Storage, is_clean: bool) -> None:
    config = small_config()
    log = open_log(storage, config)
    scenario(log)
    before = view(log)
    assert before[0] == {3: log.log_end_offset - 1}
    assert len(before[2]) == 5
    if is_clean:
        log.close()
    else:
        log.abandon()
    log = open_log(storage, config)
    assert view(log) == before


def test_truncation_opens_again_what_was_ended(storage: Storage) -> None:
    log = open_log(storage, small_config())
    scenario(log)
    marker = end(log, 3, ABORT)
    open_before, stable_before, aborted_before = view(log)
    log.truncate_to(marker)
    assert view(log) == ({3: marker - 1}, marker - 1, aborted_before[:-1])
    end(log, 3, ABORT)
    assert view(log) == (open_before, stable_before, aborted_before)


def test_what_is_before_the_log_start_is_forgotten(storage: Storage) -> None:
    log = open_log(storage)
    write(log, 1)
    end(log, 1, ABORT)
    write(log, 1)
    end(log, 1, ABORT)
    log.delete_records_before(2)
    assert view(log) == ({}, 4, [(1, 2, 3)])


def test_replicas_derive_the_same(storage: Storage) -> None:
    log = open_log(storage)
    scenario(log)
    copy = storage.open_log("t-1", TOPIC_ID, LogConfig(), NOW_MS)
    for _, data in log.batches(0, ALL):
        copy.append_fetched(bytes(data), now_ms=NOW_MS)
    assert view(copy) == view(log)


def test_markers_of_the_past_are_refused(storage: Storage) -> None:
    log = open_log(storage)
    write(log, 1)
    end(log, 1, Marker(is_commit=False, coordinator_epoch=5), epoch=4)
    states = log.producers
    states.check_marker(1, 4, Marker(is_commit=True, coordinator_epoch=5))
    for epoch, coordinator_epoch, code in (
        (3, 6, ErrorCode.invalid_producer_epoch),
        (4, 4, ErrorCode.transaction_coordinator_fenced),
    ):
        with pytest.raises(ApiError) as caught:
            states.check_marker(1, epoch, Marker(is_commit=True, coordinator_epoch=coordinator_epoch))
        assert caught.value.code is code


def test_a_producer_with_an_open_transaction_writes_nothing_else(storage: Storage) -> None:
    log = open_log(storage)
    write(log, 1)
    plain = encode_batch([Record(0, NOW_MS, None, b"v")], producer_id=1, producer_epoch=0, base_sequence=1)
    with pytest.raises(ApiError) as caught:
        log.producers.check(read_header(plain))
    assert caught.value.code is ErrorCode.invalid_txn_state
    end(log, 1, COMMIT)
    assert log.producers.check(read_header(plain)) is None


def test_a_producer_with_an_open_transaction_does_not_expire(storage: Storage) -> None:
    log = open_log(storage)
    write(log, 1)
    write(log, 2)
    end(log, 2, COMMIT)
    assert log.producers.expire(NOW_MS + 1_000, 1_000) == 1
    assert log.producers.get(1) is not None


def test_compaction_drops_what_was_aborted_and_lets_it_supersede_nothing(storage: Storage) -> None:
    config = small_config(delete=False, compact=True, min_cleanable_dirty_ratio=0.0)
    log = open_log(storage, config)
    write(log, 1, b"k", b"committed")
    end(log, 1, COMMIT)
    write(log, 1, b"k", b"aborted")
    end(log, 1, ABORT)
    for _ in range(20):
        append(log, encode_batch([Record(0, NOW_MS, b"other", b"v" * 100)]))
        log.flush()
    before = view(log)
    plan = log.compaction_plan(NOW_MS, ALL)
    assert plan is not None
    log.finish_compaction(run_compaction(plan))
    values = [
        record.value
        for header, data in log.batches(0, ALL)
        if not header.is_control
        for record in decode_records(data, header)
        if record.key == b"k"
    ]
    assert values == [b"committed"]
    log.close()
    log = open_log(storage, config)
    assert view(log)[:2] == before[:2]


def test_compaction_drops_commits_of_which_nothing_is_left(storage: Storage) -> None:
    """Else every transaction would leave a marker for good, and who reads the log would read them all."""
    config = small_config(
        delete=False, compact=True, min_cleanable_dirty_ratio=0.0, delete_retention_ms=1_000
    )
    log = open_log(storage, config)
    write(log, 2, b"kept")
    kept = [end(log, 2, COMMIT)]
    write(log, 3, b"k")
    kept.append(end(log, 3, ABORT))
    gone = []
    for _ in range(20):
        write(log, 1)
        gone.append(end(log, 1, COMMIT))
    kept.append(gone.pop())  # that of what is there
    before = view(log)

    def markers_after(now_ms: int) -> list[int]:
        append_flushed(log, encode_batch([Record(0, NOW_MS, b"other", b"v" * 3_000)]))
        plan = log.compaction_plan(now_ms, ALL)
        assert plan is not None
        log.finish_compaction(run_compaction(plan))
        return [header.base_offset for header, _ in log.batches(0, ALL) if header.is_control]

    assert markers_after(NOW_MS) == sorted(kept + gone), "who read the records has time to read on"
    assert markers_after(NOW_MS + 1_000) == kept
    log.close()
    log = open_log(storage, config)
    assert view(log)[0] == before[0]
    assert view(log)[2] == before[2]
    state = log.producers.get(1)
    assert state is not None
    assert state.coordinator_epoch == COMMIT.coordinator_epoch


@given(
    st.lists(st.tuples(st.sampled_from(["write", "commit", "abort"]), st.integers(1, 3)), max_size=40),
    st.integers(0, 40),
    st.integers(0, 40),
)
def test_against_a_naive_model(steps: list[tuple[str, int]], start: int, end: int) -> None:
    """Each offset is one step; an offset is stable when nothing at or before it is undecided."""
    transactions = Transactions()
    owner: dict[int, int] = {}
    fate: dict[int, str] = {}
    for offset, (what, producer_id) in enumerate(steps):
        if what == "write":
            transactions.begin(producer_id, offset)
            owner[offset] = producer_id
            fate[offset] = "open"
        else:
            transactions.end(producer_id, offset, is_commit=what == "commit")
            for each, by in owner.items():
                if by == producer_id and fate[each] == "open":
                    fate[each] = what
    end_offset = len(steps)
    undecided = [offset for offset, how in fate.items() if how == "open"]
    assert transactions.last_stable_offset(end_offset) == min(undecided, default=end_offset)
    copy = Transactions.from_json(transactions.to_json())
    for found in (transactions, copy):
        aborted = found.aborted_between(0, end_offset)
        for offset, by in owner.items():
            is_aborted = any(
                each.producer_id == by and each.first_offset <= offset < each.last_offset for each in aborted
            )
            assert is_aborted == (fate[offset] == "abort")
        within = [each for each in aborted if each.first_offset < end and each.last_offset >= start]
        assert found.aborted_between(start, end) == within


def after_many(count: int) -> Transactions:
    transactions = Transactions()
    for offset in range(0, 2 * count, 2):
        transactions.begin(offset, offset)
        transactions.end(offset, offset + 1, is_commit=False)
    return transactions


@pytest.mark.parametrize(
    "ask",
    [lambda after: after.last_stable_offset(ALL), lambda after: after.aborted_between(10, 12)],
    ids=["last stable offset", "aborted"],
)
def test_what_readers_need_costs_no_more_after_many_transactions(
    ask: Callable[[Transactions], object],
) -> None:
    few, many = (steps(partial(ask, after_many(count))) for count in (20, 500))
    assert many <= few + 10, "a search by halves"
