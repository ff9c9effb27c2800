"""The simulator is worth something if it notices a broken rule. Each mutation breaks one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.quorum import leadership
from penstock.quorum.core import Quorum
from penstock.quorum.messages import VoteRequest
from penstock.quorum.voters import VoterSet
from tests.sim.quorum_history import QuorumHistory

SEEDS_MAX = 100

Mutation = Callable[[pytest.MonkeyPatch], None]


def votes_for_shorter_logs(patch: pytest.MonkeyPatch) -> None:
    original = Quorum._may_grant

    def may_grant(self: Quorum, request: VoteRequest, now_ms: int) -> bool:
        longest = request.log_end._replace(last_epoch=1 << 30)
        changed = VoteRequest(
            request.epoch, request.candidate, longest, request.is_pre_vote, request.voter_storage_id
        )
        return original(self, changed, now_ms)

    patch.setattr(Quorum, "_may_grant", may_grant)


def commits_with_less_than_a_majority(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(VoterSet, "majority", property(lambda self: max(1, len(self.seats) // 2)))


def takes_a_wiped_disk_for_the_one_it_replaced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(VoterSet, "__contains__", lambda self, voter: voter.node_id in self.seats)
    original = Quorum._may_grant

    def may_grant(self: Quorum, request: VoteRequest, now_ms: int) -> bool:
        changed = VoteRequest(request.epoch, request.candidate, request.log_end, request.is_pre_vote, None)
        return original(self, changed, now_ms)

    patch.setattr(Quorum, "_may_grant", may_grant)


def does_not_compare_epochs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leadership, "maybe_divergence", lambda log, end: None)


@pytest.mark.parametrize(
    "mutation",
    [
        votes_for_shorter_logs,
        commits_with_less_than_a_majority,
        takes_a_wiped_disk_for_the_one_it_replaced,
        does_not_compare_epochs,
    ],
)
def test_the_simulator_finds(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    for seed in range(1, SEEDS_MAX + 1):
        try:
            QuorumHistory(seed).run()
        except (AssertionError, ValueError):
            return
    pytest.fail(f"{mutation.__name__} was not noticed in {SEEDS_MAX} seeds")
