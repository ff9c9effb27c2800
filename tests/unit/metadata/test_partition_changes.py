from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from penstock.metadata.brokers import stop_broker
from penstock.metadata.partition_changes import IsrChange, IsrOutcome, alter_partitions
from penstock.metadata.reassignments import Reassignment, alter_reassignments
from penstock.types import ApiError, ErrorCode
from tests.unit.metadata.builders import apply, at_least, causes, cluster, fenced, partition_of, with_topic

if TYPE_CHECKING:
    from penstock.metadata.image import MetadataImage

T = UUID(int=1)


def change(
    *isr: int, leader_epoch: int = 0, partition_epoch: int = 0, partition: int = 0, broker_epoch: int = 0
) -> IsrChange:
    members = tuple((broker_id, broker_epoch) for broker_id in isr)
    return IsrChange(T, partition, leader_epoch, partition_epoch, members)


def decided(
    image: MetadataImage, *changes: IsrChange, leader: int = 1, minimum: int = 1
) -> tuple[MetadataImage, list[IsrOutcome], list[str | None]]:
    records, outcomes = alter_partitions(image, leader, 0, changes, at_least(minimum))
    return apply(image, records)[0], outcomes, causes(records)


def three(isr: tuple[int, ...] = (1, 2, 3)) -> MetadataImage:
    return with_topic(cluster(3), "t", replicas=(1, 2, 3), isr=isr)


def error_of(outcome: IsrOutcome) -> ErrorCode:
    assert outcome.state is None
    assert outcome.error is not None
    return outcome.error.code


def test_the_set_shrinks_and_expands_as_the_leader_proposes() -> None:
    image, (outcome,), why = decided(three(), change(1, 3))
    assert partition_of(image) == outcome.state == (1, 0, (1, 2, 3), (1, 3), 1, (), (), (), (), (), ())
    assert why == ["2 fell behind the leader"]
    image, (outcome,), why = decided(image, change(3, 1, 2, partition_epoch=1))
    assert partition_of(image) == outcome.state == (1, 0, (1, 2, 3), (1, 2, 3), 2, (), (), (), (), (), ())
    assert why == ["2 caught up with the leader"]


def test_an_earlier_incarnation_of_the_broker_is_refused() -> None:
    for broker_id, epoch in ((1, 1), (9, 0)):
        with pytest.raises(ApiError) as refusal:
            alter_partitions(three(), broker_id, epoch, [change(1, 2)], at_least(1))
        assert refusal.value.code is ErrorCode.stale_broker_epoch


@pytest.mark.parametrize(
    ("proposal", "code"),
    [
        (IsrChange(UUID(int=9), 0, 0, 0, ((1, 0),)), ErrorCode.unknown_topic_id),
        (change(1, partition=7), ErrorCode.unknown_topic_or_partition),
        (change(1, leader_epoch=9), ErrorCode.not_controller),
        (change(1, partition_epoch=9), ErrorCode.not_controller),
        (change(1, leader_epoch=-1), ErrorCode.fenced_leader_epoch),
        (change(1, partition_epoch=-1), ErrorCode.invalid_update_version),
        (change(), ErrorCode.invalid_request),
        (change(2), ErrorCode.invalid_request),
        (change(1, 1), ErrorCode.invalid_request),
        (change(1, 2, 7), ErrorCode.invalid_request),
        (change(1, 2, broker_epoch=4), ErrorCode.ineligible_replica),
        (change(1, 2, broker_epoch=-1), ErrorCode.ineligible_replica),
    ],
)
def test_proposals_that_are_refused(proposal: IsrChange, code: ErrorCode) -> None:
    before = three(isr=(1, 3))
    image, (outcome,), _ = decided(before, proposal)
    assert error_of(outcome) is code
    assert partition_of(image) is partition_of(before)


def test_only_the_leader_may_propose() -> None:
    _, (outcome,), _ = decided(three(), change(2, 3), leader=2)
    assert error_of(outcome) is ErrorCode.invalid_request


def test_nobody_joins_who_is_fenced_or_stopping() -> None:
    image = fenced(three(isr=(1,)), 2)
    image, _ = apply(image, stop_broker(image, 3, at_least(1)))
    for joining in (2, 3):
        _, (outcome,), _ = decided(image, change(1, joining))
        assert error_of(outcome) is ErrorCode.ineligible_replica


def test_who_is_gone_may_stay_as_long_as_the_minimum_needs_it() -> None:
    image = fenced(three(isr=(1, 2)), 2, minimum=2)
    assert partition_of(image).isr == (1, 2)
    image, (outcome,), _ = decided(image, change(1, 2, 3), minimum=3)
    assert outcome.error is None
    assert partition_of(image).isr == (1, 2, 3)


def test_the_set_is_not_given_up_below_the_minimum() -> None:
    image, (outcome,), _ = decided(three(), change(1), minimum=2)
    assert error_of(outcome) is ErrorCode.not_enough_replicas
    assert partition_of(image).isr == (1, 2, 3)
    # Below it already, who joins is welcome all the same.
    image, (outcome,), _ = decided(three(isr=(1,)), change(1, 2), minimum=3)
    assert outcome.error is None


def test_a_proposal_that_came_twice_gets_the_same_answer() -> None:
    image, first, _ = decided(three(), change(1, 3))
    again, second, why = decided(image, change(1, 3))
    assert (partition_of(again), second, why) == (partition_of(image), first, [])
    _, third, _ = decided(image, change(1, 2))
    assert error_of(third[0]) is ErrorCode.invalid_update_version


def test_a_partition_named_twice_in_one_request_changes_once() -> None:
    image, outcomes, why = decided(three(), change(1, 3), change(1, 2))
    assert partition_of(image).isr == (1, 3)
    assert outcomes[0].error is None
    assert error_of(outcomes[1]) is ErrorCode.invalid_update_version
    assert len(why) == 1


def test_a_refused_change_does_not_hold_up_the_others() -> None:
    image = with_topic(cluster(3), "t", partitions=2, replicas=(1, 2, 3))
    image, outcomes, _ = decided(image, change(1, partition_epoch=5), change(1, partition=1))
    assert [each.error is None for each in outcomes] == [False, True]
    assert [partition_of(image, index=index).isr for index in (0, 1)] == [(1, 2, 3), (1,)]


def test_the_last_one_in_completes_a_reassignment() -> None:
    image = with_topic(cluster(4), "t", replicas=(1, 2))
    records, _ = alter_reassignments(image, [Reassignment("t", 0, (1, 3, 4))], at_least(2))
    image, _ = apply(image, records)
    image, (outcome,), _ = decided(image, change(1, 2, 3, partition_epoch=1), minimum=2)
    assert outcome.state is not None
    assert (outcome.state.replicas, outcome.state.removing) == ((1, 3, 4, 2), (2,))
    image, (outcome,), _ = decided(image, change(1, 2, 3, 4, partition_epoch=2), minimum=2)
    assert outcome.state == partition_of(image) == (1, 1, (1, 3, 4), (1, 3, 4), 3, (), (), (), (), (), ())


def test_a_leader_on_its_way_out_is_told_that_another_leads() -> None:
    image = with_topic(cluster(3), "t", replicas=(1, 2))
    records, _ = alter_reassignments(image, [Reassignment("t", 0, (3, 2))], at_least(2))
    image, _ = apply(image, records)
    image, (outcome,), _ = decided(image, change(1, 2, 3, partition_epoch=1), minimum=2)
    assert error_of(outcome) is ErrorCode.new_leader_elected
    assert partition_of(image) == (3, 1, (3, 2), (3, 2), 2, (), (), (), (), (), ())
