from __future__ import annotations

from dataclasses import dataclass, field

from penstock.replication.leader import Member, PartitionLeader, PartitionState, Proposal
from penstock.replication.replica_fetch import ReplicaAnswer, ReplicaFetch
from penstock.storage.epochs import LeaderEpochs
from penstock.types import ErrorCode

LAG_MS_MAX = 3000
EPOCHS = {1: 10, 2: 20, 3: 30}


@dataclass
class Log:
    log_end_offset: int = 0
    flushed_end_offset: int = 0
    log_start_offset: int = 0
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)

    def append(self, count: int) -> None:
        self.log_end_offset += count
        self.flushed_end_offset = self.log_end_offset


def state(isr: tuple[int, ...] = (1, 2, 3), partition_epoch: int = 7) -> PartitionState:
    return PartitionState(1, 5, partition_epoch, (1, 2, 3), isr)


def leader(log: Log, isr: tuple[int, ...] = (1, 2, 3), minimum: int = 2) -> PartitionLeader:
    return PartitionLeader(
        1, state(isr), log, high_watermark=0, min_insync_replicas=minimum, lag_ms_max=LAG_MS_MAX, now_ms=0
    )


def test_the_high_watermark_is_the_least_end_of_the_in_sync_set() -> None:
    log = Log()
    partition = leader(log)
    log.append(10)
    assert not partition.fetched(2, 20, 8, 1)
    assert partition.fetched(3, 30, 6, 2)
    assert partition.high_watermark == 6


def test_the_leaders_own_end_counts_when_it_is_flushed() -> None:
    log = Log(log_end_offset=10, flushed_end_offset=4)
    partition = leader(log)
    partition.fetched(2, 20, 10, 1)
    partition.fetched(3, 30, 10, 1)
    assert partition.high_watermark == 4
    log.flushed_end_offset = 10
    assert partition.advance()
    assert partition.high_watermark == 10


def test_the_high_watermark_never_goes_back() -> None:
    log = Log()
    partition = leader(log, (1, 2))
    log.append(10)
    partition.fetched(2, 20, 10, 1)
    partition.fetched(2, 20, 4, 2)
    assert partition.high_watermark == 10


def test_below_the_minimum_nothing_is_committed() -> None:
    log = Log()
    partition = leader(log, (1,), minimum=2)
    log.append(10)
    assert not partition.advance()
    assert not partition.takes_acks_all([1, 2, 3], 0)


def test_dead_members_do_not_make_a_minimum() -> None:
    partition = leader(Log(), minimum=2)
    assert partition.takes_acks_all([1, 3], 0)
    assert not partition.takes_acks_all([1], 0)


def test_a_member_that_lives_and_does_not_fetch_does_not_make_a_minimum() -> None:
    """The minimum keeps it in the set; who wrote would wait for it in vain."""
    log = Log()
    partition = leader(log, (1, 2))
    assert partition.takes_acks_all([1, 2], LAG_MS_MAX), "it has its time to begin"
    assert not partition.takes_acks_all([1, 2], LAG_MS_MAX + 1)
    partition.fetched(2, 20, 0, 5_000)
    log.append(1_000)
    partition.fetched(2, 20, 1, 5_000 + LAG_MS_MAX)
    assert partition.takes_acks_all([1, 2], 5_000 + 2 * LAG_MS_MAX), "it is far behind, and comes nearer"
    assert not partition.takes_acks_all([1, 2], 5_001 + 2 * LAG_MS_MAX)


def test_a_follower_joins_when_it_has_all_that_is_committed_and_the_start_of_the_epoch() -> None:
    log = Log(5, 5)
    partition = leader(log, (1, 2))
    log.append(5)
    partition.fetched(2, 20, 10, 1)
    partition.fetched(3, 30, 9, 1)
    assert partition.maybe_propose(EPOCHS.get, 2) is None
    partition.fetched(3, 30, 10, 3)
    assert partition.maybe_propose(EPOCHS.get, 3) == Proposal(
        5, 7, (Member(1, 10), Member(2, 20), Member(3, 30))
    )


def test_a_new_leader_lets_nobody_in_before_the_start_of_its_epoch() -> None:
    """Its high watermark may lie far behind what earlier leaders acknowledged."""
    partition = leader(Log(8, 8), (1, 2))
    partition.fetched(3, 30, 6, 1)
    assert partition.maybe_propose(EPOCHS.get, 2) is None


def test_a_silent_follower_is_not_let_in_again_because_nothing_was_written() -> None:
    partition = leader(Log())
    partition.fetched(2, 20, 0, 1)
    partition.fetched(3, 30, 0, 3100)
    assert partition.maybe_propose(EPOCHS.get, 3100) == Proposal(5, 7, (Member(1, 10), Member(3, 30)))
    partition.changed(state((1, 3), partition_epoch=8))
    assert partition.maybe_propose(EPOCHS.get, 3200) is None
    partition.fetched(2, 20, 0, 3300)
    assert partition.maybe_propose(EPOCHS.get, 3300) is not None


def test_another_incarnation_of_a_follower_is_not_let_in_by_what_the_first_one_had() -> None:
    log = Log()
    partition = leader(log, (1, 2))
    partition.fetched(3, 30, 0, 1)
    assert partition.maybe_propose({1: 10, 2: 20, 3: 31}.get, 2) is None
    assert partition.maybe_propose({1: 10, 2: 20}.get, 2) is None  # fenced


def test_who_is_to_join_counts_at_once() -> None:
    log = Log()
    partition = leader(log, (1, 2))
    partition.fetched(3, 30, 0, 1)
    assert partition.maybe_propose(EPOCHS.get, 1) is not None
    log.append(10)
    partition.fetched(2, 20, 10, 2)
    assert partition.high_watermark == 0
    partition.fetched(3, 30, 7, 3)
    assert partition.high_watermark == 7


def test_who_is_to_leave_counts_until_that_is_decided() -> None:
    log = Log()
    partition = leader(log)
    log.append(10)
    partition.fetched(2, 20, 10, 3100)
    proposal = partition.maybe_propose(EPOCHS.get, 3100)
    assert proposal == Proposal(5, 7, (Member(1, 10), Member(2, 20)))
    assert partition.high_watermark == 0
    assert partition.changed(state((1, 2), partition_epoch=8))
    assert partition.high_watermark == 10


def test_a_set_is_not_proposed_below_the_minimum() -> None:
    log = Log()
    partition = leader(log, minimum=2)
    log.append(10)
    proposal = partition.maybe_propose(EPOCHS.get, 9000)
    assert proposal is not None
    assert len(proposal.isr) == 2
    partition = leader(log, (1, 2), minimum=2)
    assert partition.maybe_propose(EPOCHS.get, 9000) is None


def test_one_proposal_at_a_time_and_no_timeout() -> None:
    log = Log()
    partition = leader(log)
    log.append(10)
    proposal = partition.maybe_propose(EPOCHS.get, 9000)
    assert proposal is not None
    assert partition.maybe_propose(EPOCHS.get, 99_000) is None
    assert partition.refused(proposal, ErrorCode.ineligible_replica)
    assert partition.maybe_propose(EPOCHS.get, 99_000) is not None


def test_an_error_that_says_nothing_of_the_members_does_not_end_a_proposal() -> None:
    """A copy of it may have been agreed to: those that it adds count until the metadata tells."""
    log = Log()
    partition = leader(log, (1, 2))
    partition.fetched(3, 30, 0, 1)
    proposal = partition.maybe_propose(EPOCHS.get, 1)
    assert proposal is not None
    assert not partition.refused(proposal, ErrorCode.invalid_update_version)
    assert partition.propose_again() is proposal
    log.append(10)
    partition.fetched(2, 20, 10, 2)
    assert partition.high_watermark == 0


def test_the_refusal_of_one_copy_says_nothing_of_the_other() -> None:
    log = Log()
    partition = leader(log, (1, 2))
    partition.fetched(3, 30, 0, 1)
    proposal = partition.maybe_propose(EPOCHS.get, 1)
    assert proposal is not None
    assert partition.propose_again() is proposal
    assert partition.refused(proposal, ErrorCode.ineligible_replica)
    log.append(10)
    partition.fetched(2, 20, 10, 2)
    assert partition.high_watermark == 0
    # The set that is, for the partition epoch that comes with it.
    assert partition.maybe_propose({1: 10, 2: 20}.get, 3) == Proposal(5, 7, (Member(1, 10), Member(2, 20)))
    assert partition.changed(state((1, 2), partition_epoch=8))
    assert partition.high_watermark == 10


def test_the_fetch_of_a_process_that_was_replaced_does_not_count() -> None:
    partition = leader(Log())
    partition.fetched(2, 20, 0, 1)
    fetch = ReplicaFetch(5, 0, -1, 0)
    assert partition.maybe_refuse(Member(2, 20), fetch) is None
    assert partition.maybe_refuse(Member(2, 21), fetch) is None
    refusal = ReplicaAnswer(ErrorCode.not_leader_or_follower)
    assert partition.maybe_refuse(Member(2, 19), fetch) == refusal
    assert partition.maybe_refuse(Member(4, 40), fetch) == refusal  # no replica


def test_what_is_deleted_is_gone_when_every_live_replica_says_so() -> None:
    log = Log(10, 10, log_start_offset=6)
    partition = leader(log)
    partition.fetched(2, 20, 10, 1, 6)
    assert partition.low_watermark([1, 2]) == 6
    assert partition.low_watermark([1, 2, 3]) == 0
    partition.fetched(3, 30, 10, 1, 4)
    assert partition.low_watermark([1, 2, 3]) == 4


def test_an_old_partition_epoch_is_no_news() -> None:
    partition = leader(Log())
    assert not partition.changed(state((1,), partition_epoch=7))
    assert partition.state.isr == (1, 2, 3)


def test_a_follower_that_keeps_up_with_a_moving_end_is_not_late() -> None:
    """It never has everything, but always what there was at its last fetch."""
    log = Log()
    partition = leader(log, (1, 2), minimum=1)
    for now_ms in range(0, 20_000, 500):
        before = log.log_end_offset
        log.append(100)
        partition.fetched(2, 20, before, now_ms)
        assert partition.maybe_propose(EPOCHS.get, now_ms) is None


def test_a_follower_that_falls_behind_is_late_after_a_while() -> None:
    log = Log()
    partition = leader(log, (1, 2), minimum=1)
    partition.fetched(2, 20, 0, 100)
    for now_ms in range(500, 3001, 500):
        log.append(100)
        partition.fetched(2, 20, now_ms // 100, now_ms)
        assert partition.maybe_propose(EPOCHS.get, now_ms) is None
    assert partition.maybe_propose(EPOCHS.get, 3700) is not None


def test_ends_are_told_when_the_high_watermark_has_reached_the_start_of_the_epoch() -> None:
    partition = leader(Log(8, 8), (1, 2))
    assert not partition.serves_offsets
    partition.fetched(2, 20, 8, 1)
    assert partition.serves_offsets
