from __future__ import annotations

import pytest

from penstock.replication.divergence import LogEnd
from penstock.replication.replica_fetch import NO_EPOCH, ReplicaAnswer, ReplicaFetch, maybe_refuse
from penstock.types import ErrorCode
from tests.unit.replication.logs import Log

LEADER = Log([(2, 0), (5, 6)], 10)


def refusal(fetch: ReplicaFetch, log: Log = LEADER) -> ReplicaAnswer | None:
    return maybe_refuse(5, log, 3, fetch)


def test_a_log_that_is_how_the_leaders_began_gets_records() -> None:
    for last_epoch, offset in ((NO_EPOCH, 0), (2, 4), (2, 6), (5, 7), (5, 10)):
        assert refusal(ReplicaFetch(5, offset, last_epoch, 0)) is None


@pytest.mark.parametrize(
    ("leader_epoch", "error"), [(4, ErrorCode.fenced_leader_epoch), (6, ErrorCode.unknown_leader_epoch)]
)
def test_other_leader_epochs(leader_epoch: int, error: ErrorCode) -> None:
    assert refusal(ReplicaFetch(leader_epoch, 4, 2, 0)) == ReplicaAnswer(error, 3, 0)


def test_a_leader_of_the_past_does_not_truncate_what_came_after_it() -> None:
    answer = refusal(ReplicaFetch(5, 12, 6, 0))
    assert answer is not None
    assert answer.error is ErrorCode.unknown_leader_epoch
    assert answer.diverging is None


def test_where_the_logs_part() -> None:
    assert refusal(ReplicaFetch(5, 8, 2, 0)) == ReplicaAnswer(ErrorCode.none, 3, 0, LogEnd(2, 6))
    assert refusal(ReplicaFetch(5, 8, 4, 0)) == ReplicaAnswer(ErrorCode.none, 3, 0, LogEnd(2, 6))
    assert refusal(ReplicaFetch(5, 12, 5, 0)) == ReplicaAnswer(ErrorCode.none, 3, 0, LogEnd(5, 10))


def test_what_the_leader_no_longer_has() -> None:
    log = Log([(2, 4), (5, 6)], 10, log_start_offset=4)
    assert refusal(ReplicaFetch(5, 3, 2, 0), log) == ReplicaAnswer(ErrorCode.offset_out_of_range, 3, 4)
    assert refusal(ReplicaFetch(5, 4, NO_EPOCH, 4), log) is None


def test_an_empty_log_that_begins_beyond_the_leaders_end() -> None:
    assert refusal(ReplicaFetch(5, 11, NO_EPOCH, 11)) == ReplicaAnswer(ErrorCode.offset_out_of_range, 3, 0)


def test_what_ends_where_the_leader_starts_cannot_always_be_compared() -> None:
    """Of epoch 1 the leader knows nothing any more: it may have deleted other records than these."""
    log = Log([(2, 4), (5, 6)], 10, log_start_offset=4)
    assert refusal(ReplicaFetch(5, 4, 2, 0), log) is None
    assert refusal(ReplicaFetch(5, 4, 1, 0), log) == ReplicaAnswer(ErrorCode.offset_out_of_range, 3, 4)
