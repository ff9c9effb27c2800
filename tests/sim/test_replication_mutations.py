"""The simulator is worth something if it notices a broken rule. Each mutation breaks one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from penstock.metadata import brokers, leadership, partition_changes, reassignments
from penstock.replication import replica_fetch
from penstock.replication.follower import Effect, PartitionFollower, TruncateTo
from penstock.replication.leader import PartitionLeader, Proposal
from penstock.storage import StorageError
from penstock.types import ErrorCode
from tests.sim.replication_history import ReplicationHistory

if TYPE_CHECKING:
    from penstock.metadata.image import PartitionImage
    from penstock.replication.replica_fetch import ReplicaAnswer

SEEDS_MAX = 200

Mutation = Callable[[pytest.MonkeyPatch], None]


def truncates_by_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """As Kafka did before KIP-101: whoever begins to follow forgets what it does not know to be committed."""
    original = PartitionFollower.answered
    begun: set[int] = set()

    def answered(self: PartitionFollower, answer: ReplicaAnswer) -> Effect:
        if answer.error is ErrorCode.none and id(self) not in begun:
            begun.add(id(self))
            return TruncateTo(self.high_watermark)
        return original(self, answer)

    patch.setattr(PartitionFollower, "answered", answered)


def does_not_compare_logs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replica_fetch, "maybe_divergence", lambda log, end: None)


def does_not_check_leader_epochs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replica_fetch, "_epoch_error", lambda leader_epoch, fetch: None)


def counts_who_joins_when_that_is_agreed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionLeader, "_counted", lambda self: frozenset(self.state.isr))


def does_not_count_who_leaves_before_that_is_agreed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        PartitionLeader,
        "_counted",
        lambda self: self.proposal.broker_ids if self.proposal else frozenset(self.state.isr),
    )


def gives_a_proposal_up_without_an_answer(patch: pytest.MonkeyPatch) -> None:
    def propose_again(self: PartitionLeader) -> Proposal | None:
        self.proposal = None
        return None

    patch.setattr(PartitionLeader, "propose_again", propose_again)


def lets_join_who_has_only_what_is_known_to_be_committed(patch: pytest.MonkeyPatch) -> None:
    def may_join(self: PartitionLeader, broker_id: int, broker_epoch: int | None, now_ms: int) -> bool:
        progress = self._followers.get(broker_id)
        return (
            progress is not None
            and broker_epoch == progress.broker_epoch
            and progress.end_offset >= self.high_watermark
        )

    patch.setattr(PartitionLeader, "_may_join", may_join)


def counts_what_is_not_flushed(patch: pytest.MonkeyPatch) -> None:
    original = PartitionLeader.end_offset_of

    def end_offset(self: PartitionLeader, broker_id: int) -> int:
        return self._log.log_end_offset if broker_id == self._me else original(self, broker_id)

    patch.setattr(PartitionLeader, "end_offset_of", end_offset)


def elects_whoever_is_alive(patch: pytest.MonkeyPatch) -> None:
    original = leadership._elected

    def elected(partition: PartitionImage, brokers: leadership.Liveness) -> int:
        return original(partition._replace(isr=partition.replicas), brokers)

    patch.setattr(leadership, "_elected", elected)


def shrinks_below_the_minimum(patch: pytest.MonkeyPatch) -> None:
    original = leadership._shrunk
    patch.setattr(
        leadership, "_shrunk", lambda partition, leader, brokers, _: original(partition, leader, brokers, 1)
    )


def takes_a_wiped_disk_for_the_one_it_replaced(patch: pytest.MonkeyPatch) -> None:
    original = brokers.settle_replicas_of

    def settle(*arguments: object, **_: object) -> object:
        return original(*arguments)  # type: ignore[arg-type]  # handed on as they came

    patch.setattr(brokers, "settle_replicas_of", settle)


def begins_no_epoch_when_a_replica_goes(patch: pytest.MonkeyPatch) -> None:
    def advanced(before: PartitionImage, after: PartitionImage) -> PartitionImage:
        if after == before:
            return before
        leader_epoch = before.leader_epoch + (after.leader != before.leader)
        return after._replace(leader_epoch=leader_epoch, partition_epoch=before.partition_epoch + 1)

    for module in (leadership, partition_changes, reassignments):
        patch.setattr(module, "advanced", advanced)


MUTATIONS = [
    truncates_by_high_watermark,
    does_not_compare_logs,
    does_not_check_leader_epochs,
    counts_who_joins_when_that_is_agreed,
    does_not_count_who_leaves_before_that_is_agreed,
    gives_a_proposal_up_without_an_answer,
    lets_join_who_has_only_what_is_known_to_be_committed,
    counts_what_is_not_flushed,
    elects_whoever_is_alive,
    shrinks_below_the_minimum,
    takes_a_wiped_disk_for_the_one_it_replaced,
    begins_no_epoch_when_a_replica_goes,
]
FIRST_SEEDS = {
    does_not_check_leader_epochs: 6,
    counts_who_joins_when_that_is_agreed: 14,
    does_not_count_who_leaves_before_that_is_agreed: 6,
    gives_a_proposal_up_without_an_answer: 73,
    counts_what_is_not_flushed: 7,
    elects_whoever_is_alive: 2,
    begins_no_epoch_when_a_replica_goes: 23,
}
"""Of mutations that few histories notice, a seed that does; should that change, one of the next will."""


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_the_simulator_finds(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    first = FIRST_SEEDS.get(mutation, 1)
    for seed in range(first, first + SEEDS_MAX):
        try:
            ReplicationHistory(seed).run()
        except (AssertionError, StorageError):
            return
    pytest.fail(f"{mutation.__name__} was not noticed in {SEEDS_MAX} seeds")
