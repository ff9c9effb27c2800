from __future__ import annotations

from penstock.replication.divergence import LogEnd
from penstock.replication.follower import (
    AppendRecords,
    FetchAgain,
    PartitionFollower,
    Retry,
    StartAt,
    Stop,
    TruncateTo,
)
from penstock.replication.leader import PartitionState
from penstock.replication.replica_fetch import ReplicaAnswer, ReplicaFetch
from penstock.types import ErrorCode
from tests.unit.replication.logs import Log

STATE = PartitionState(1, 5, 7, (1, 2, 3), (1, 2, 3))


def follower(log: Log, high_watermark: int = 0) -> PartitionFollower:
    return PartitionFollower(2, STATE, log, high_watermark)


def test_it_asks_for_what_comes_after_its_log_in_the_epoch_of_its_leader() -> None:
    log = Log([(2, 0), (4, 6)], 8, log_start_offset=3)
    assert follower(log).next_fetch() == ReplicaFetch(5, offset=8, last_epoch=4, log_start_offset=3)


def test_an_empty_log_has_no_last_epoch() -> None:
    assert follower(Log()).next_fetch() == ReplicaFetch(5, offset=0, last_epoch=-1, log_start_offset=0)


def test_the_high_watermark_follows_the_leaders_as_far_as_the_log_is_flushed() -> None:
    log = Log([(5, 0)], 4)
    partition = follower(log, 2)
    assert partition.answered(ReplicaAnswer(high_watermark=9, has_records=True)) == AppendRecords()
    assert partition.high_watermark == 2
    log.append(10)
    assert partition.flushed()
    assert partition.high_watermark == 9


def test_an_answer_without_records_may_move_the_high_watermark() -> None:
    partition = follower(Log([(5, 0)], 4))
    assert partition.answered(ReplicaAnswer(high_watermark=3)) == FetchAgain()
    assert partition.high_watermark == 3


def test_the_high_watermark_of_a_new_leader_may_lag_behind_ours() -> None:
    partition = follower(Log([(5, 0)], 4), 4)
    partition.answered(ReplicaAnswer(high_watermark=1))
    assert partition.high_watermark == 4


def test_it_truncates_by_epochs_and_not_by_its_high_watermark() -> None:
    log = Log([(2, 0), (3, 6)], 9)
    partition = follower(log, 2)
    assert partition.answered(ReplicaAnswer(diverging=LogEnd(2, 8))) == TruncateTo(6)
    assert partition.answered(ReplicaAnswer(diverging=LogEnd(2, 4))) == TruncateTo(4)


def test_an_epoch_that_brought_nothing_is_truncated_at_the_end_of_the_log() -> None:
    """It led epoch 4 and wrote nothing; the leader has more of epoch 2 than we."""
    log = Log([(2, 0), (4, 9)], 9)
    assert follower(log).answered(ReplicaAnswer(diverging=LogEnd(2, 12))) == TruncateTo(9)


def test_a_high_watermark_told_before_the_logs_agree_does_not_count() -> None:
    log = Log([(2, 0), (3, 6)], 9)
    partition = follower(log, 2)
    partition.answered(ReplicaAnswer(high_watermark=8, diverging=LogEnd(2, 8)))
    log.truncate(6)
    partition.flushed()
    assert partition.high_watermark == 2
    assert partition.confirmed_end_offset == 0


def test_what_an_earlier_epoch_committed_is_confirmed_when_the_leader_of_this_one_says_so() -> None:
    partition = follower(Log([(5, 0)], 4), 4)
    assert (partition.high_watermark, partition.confirmed_end_offset) == (4, 0)
    partition.answered(ReplicaAnswer(high_watermark=3))
    assert (partition.high_watermark, partition.confirmed_end_offset) == (4, 3)
    partition.answered(ReplicaAnswer(high_watermark=9, has_records=True))
    assert partition.confirmed_end_offset == 4


def test_the_high_watermark_goes_back_with_the_log() -> None:
    """After an election that was not clean."""
    log = Log([(2, 0)], 9)
    partition = follower(log, 9)
    partition.answered(ReplicaAnswer(diverging=LogEnd(2, 4)))
    log.truncate(4)
    partition.flushed()
    assert partition.high_watermark == 4


def test_it_begins_anew_where_the_leader_starts() -> None:
    log = Log([(2, 0)], 4)
    partition = follower(log, 4)
    answer = ReplicaAnswer(ErrorCode.offset_out_of_range, high_watermark=30, log_start_offset=20)
    assert partition.answered(answer) == StartAt(20)
    log.restart_at(20)
    partition.flushed()
    assert partition.high_watermark == 20


def test_it_deletes_what_the_leader_deleted_once_that_is_committed_here() -> None:
    log = Log([(5, 0)], 10)
    partition = follower(log)
    partition.answered(ReplicaAnswer(high_watermark=4, log_start_offset=6))
    assert partition.log_start_offset == 4
    partition.answered(ReplicaAnswer(high_watermark=9, log_start_offset=6))
    assert partition.log_start_offset == 6


def test_errors() -> None:
    partition = follower(Log())
    assert partition.answered(ReplicaAnswer(ErrorCode.fenced_leader_epoch)) == Stop()
    for error in (ErrorCode.unknown_leader_epoch, ErrorCode.not_leader_or_follower):
        assert partition.answered(ReplicaAnswer(error)) == Retry(error)
