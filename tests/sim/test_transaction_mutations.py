"""The simulator is worth something if it notices a broken rule. Each mutation breaks one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from penstock.broker.coordinator_shard import CoordinatorShard
from penstock.broker.transaction_markers import TransactionMarkers
from penstock.broker.verifications import Verifications
from penstock.groups import shard as group_shard
from penstock.groups.offsets import Offsets
from penstock.storage.transactions import Transactions
from penstock.transactions.messages import Answer, Effect, Identity, SendMarkers, Write
from penstock.transactions.shard import Shard
from penstock.transactions.states import TransactionState
from penstock.transactions.transaction import Transaction
from penstock.types import ErrorCode
from tests.sim.connections import Connections
from tests.sim.transaction_clients import Habits
from tests.sim.transaction_history import Focus, TransactionHistory

if TYPE_CHECKING:
    from penstock.transactions.records import TransactionValue

SEEDS_MAX = 200

Mutation = Callable[[pytest.MonkeyPatch], None]


# The coordinator


def sends_markers_before_the_outcome_is_written(patch: pytest.MonkeyPatch) -> None:
    original = Shard._write

    def write(self: Shard, transaction: Transaction, value: TransactionValue, *more: Any) -> list[Effect]:
        effects = original(self, transaction, value, *more)
        if value.state.is_ending and any(isinstance(each, Write) for each in effects):
            who = Identity(transaction.transactional_id, value.producer_id, value.producer_epoch)
            is_commit = value.state is TransactionState.PREPARE_COMMIT
            effects.append(SendMarkers(who, is_commit, value.partitions))
        return effects

    patch.setattr(Shard, "_write", write)


def answers_before_the_partition_is_written(patch: pytest.MonkeyPatch) -> None:
    original = Shard.add_partitions

    def add_partitions(self: Shard, token: int, *more: Any) -> list[Effect]:
        effects: list[Effect] = []
        for effect in original(self, token, *more):
            if isinstance(effect, Write):
                effects.append(Answer(token, effect.reply))
                effect = replace(effect, token=None)
            effects.append(effect)
        return effects

    patch.setattr(Shard, "add_partitions", add_partitions)


def forgets_what_was_decided_when_it_takes_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Shard, "finish_loading", lambda self: [])


def gives_no_new_epoch_to_a_new_owner(patch: pytest.MonkeyPatch) -> None:
    original = Transaction.init

    def init(self: Transaction, *asked: Any) -> TransactionValue | ErrorCode:
        value = original(self, *asked)
        if isinstance(value, ErrorCode) or self.value is None or value.state.is_ending:
            return value
        return replace(value, producer_id=self.value.producer_id, producer_epoch=self.value.producer_epoch)

    patch.setattr(Transaction, "init", init)


def aborts_for_another_in_the_same_epoch(patch: pytest.MonkeyPatch) -> None:
    original = Transaction.aborted

    def aborted(self: Transaction, now_ms: int) -> TransactionValue:
        assert self.value is not None
        return replace(original(self, now_ms), producer_epoch=self.value.producer_epoch)

    patch.setattr(Transaction, "aborted", aborted)


def takes_any_epoch_for_the_owner(patch: pytest.MonkeyPatch) -> None:
    original = Transaction.refuse

    def refuse(self: Transaction, who: Identity) -> ErrorCode:
        error = original(self, who)
        return ErrorCode.none if error is ErrorCode.producer_fenced and not self.is_pending else error

    patch.setattr(Transaction, "refuse", refuse)


def serves_before_what_it_read_is_committed(patch: pytest.MonkeyPatch) -> None:
    async def load(self: CoordinatorShard[Any, Any]) -> None:
        partition = self.partition
        await partition.settle()
        self._load_some(partition.log_start_offset, partition.log.log_end_offset)
        if not self.is_resigned:
            self._finish_loading()

    patch.setattr(CoordinatorShard, "load", load)


# Markers


def takes_an_error_for_a_marker(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        TransactionMarkers, "_take", lambda self, ending, partitions, outcomes: ending.mark(set(partitions))
    )


# Partitions


def takes_records_of_no_transaction(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Shard, "verify", lambda self, who, partition: ErrorCode.none)


def trusts_an_answer_that_a_marker_overtook(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Verifications, "end", lambda self, producer_id: None)


def shows_open_transactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transactions, "last_stable_offset", lambda self, high_watermark: high_watermark)


def names_no_aborted_transactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transactions, "aborted_between", lambda self, start, end: [])


# Positions


def counts_positions_before_the_marker(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Offsets, "prepare", lambda self, producer_id, offsets: self.committed.update(offsets))


def forgets_at_takeover_that_positions_are_open(patch: pytest.MonkeyPatch) -> None:
    original = group_shard.Shard.replay

    def replay(self: group_shard.Shard, key: bytes, value: bytes | None, now_ms: int, _: Any = None) -> None:
        original(self, key, value, now_ms)

    patch.setattr(group_shard.Shard, "replay", replay)


# The network


def takes_requests_of_closed_connections(patch: pytest.MonkeyPatch) -> None:
    """A rule that no broker can keep in all circumstances, and on which Kafka's protocol rests.

    Within an epoch nothing tells the end of one transaction from that of the next, so that a request that
    comes after it was given up and sent again ends what it was never meant for (KAFKA-17754).
    """
    patch.setattr(Connections, "drops_closed", False)


TAKEOVERS = Focus(["deafen", "move"], Habits(2, 0.3, 0.0))
ISOLATION = Focus(["move", "deafen", "cut"], Habits(2, 0.3, 0.0))
LATE_ANSWERS = Focus(["slow brokers"], Habits(2, 0.4, 0.9))
LATE_REQUESTS = Focus(["slow client"], Habits(2, 0.3, 0.0))

MUTATIONS = [
    (sends_markers_before_the_outcome_is_written, TAKEOVERS, 46),
    (answers_before_the_partition_is_written, TAKEOVERS, 78),
    (forgets_what_was_decided_when_it_takes_over, None, 10),
    (gives_no_new_epoch_to_a_new_owner, None, 11),
    (aborts_for_another_in_the_same_epoch, None, 14),
    (takes_any_epoch_for_the_owner, None, 12),
    (serves_before_what_it_read_is_committed, ISOLATION, 14),
    (takes_an_error_for_a_marker, None, 25),
    (takes_records_of_no_transaction, None, 12),
    (trusts_an_answer_that_a_marker_overtook, LATE_ANSWERS, 7),
    (shows_open_transactions, None, 1),
    (names_no_aborted_transactions, None, 1),
    (counts_positions_before_the_marker, None, 1),
    (forgets_at_takeover_that_positions_are_open, None, 11),
    (takes_requests_of_closed_connections, LATE_REQUESTS, 51),
]
"""What is rare is looked for where it is less so, from a seed on that is known to show it: should that have
changed with the code, one of the next will."""


@pytest.mark.parametrize(("mutation", "focus", "first_seed"), MUTATIONS)
def test_the_simulator_finds(
    mutation: Mutation, focus: Focus | None, first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    for seed in range(first_seed, first_seed + SEEDS_MAX):
        try:
            TransactionHistory(seed, focus=focus).run()
        except AssertionError:
            return
    pytest.fail(f"{mutation.__name__} was not noticed in {SEEDS_MAX} seeds")
