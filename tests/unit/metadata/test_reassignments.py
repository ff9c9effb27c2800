from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from penstock.metadata.brokers import stop_broker, unregister_broker
from penstock.metadata.image import ConfigResource, ResourceType
from penstock.metadata.partition_changes import IsrChange, alter_partitions
from penstock.metadata.reassignments import (
    OngoingReassignment,
    Reassignment,
    alter_reassignments,
    decommission,
    list_reassignments,
)
from penstock.types import ApiError, ErrorCode, TopicPartition
from tests.unit.metadata.builders import apply, at_least, causes, cluster, fenced, partition_of, with_topic

if TYPE_CHECKING:
    from penstock.metadata.image import MetadataImage


def moved(
    image: MetadataImage, replicas: tuple[int, ...] | None, *, minimum: int = 1
) -> tuple[MetadataImage, ErrorCode | None]:
    records, (outcome,) = alter_reassignments(image, [Reassignment("t", 0, replicas)], at_least(minimum))
    return apply(image, records)[0], outcome.error and outcome.error.code


def in_sync(image: MetadataImage, *isr: int, topic: str = "t", minimum: int = 1) -> MetadataImage:
    """The image after the leader proposed this set."""
    found = image.topics[topic]
    partition = found.partitions[0]
    members = tuple((each, image.brokers[each].epoch) for each in isr)
    change = IsrChange(found.topic_id, 0, partition.leader_epoch, partition.partition_epoch, members)
    records, _ = alter_partitions(image, partition.leader, 0, [change], at_least(minimum))
    assert records
    return apply(image, records)[0]


def three() -> MetadataImage:
    return with_topic(cluster(6), "t", replicas=(1, 2, 3))


def test_a_partition_on_its_way_has_old_and_new_replicas() -> None:
    image, error = moved(three(), (4, 2, 1))
    partition = partition_of(image)
    assert error is None
    assert partition == (1, 0, (4, 2, 1, 3), (1, 2, 3), 1, (4,), (3,), (), (), (), ())
    assert (partition.target, set(partition.original)) == ((4, 2, 1), {1, 2, 3})
    assert list_reassignments(image, None) == [OngoingReassignment("t", 0, (4, 2, 1, 3), (4,), (3,))]
    assert list_reassignments(image, [TopicPartition("t", 0), TopicPartition("x", 0)]) != []
    assert list_reassignments(image, [TopicPartition("t", 1)]) == []


def test_replicas_that_only_go_or_change_places_need_no_waiting() -> None:
    image, _ = moved(three(), (2, 1))
    assert partition_of(image) == (1, 1, (2, 1), (2, 1), 1, (), (), (), (), (), ())
    image, _ = moved(image, (1, 2))
    assert partition_of(image)[:4] == (1, 1, (1, 2), (2, 1))
    before = image
    image, error = moved(image, (1, 2))
    assert (partition_of(image), error) == (partition_of(before), None)


def test_a_replica_that_comes_back_fetches_in_another_leader_epoch_than_before_it_went() -> None:
    """It deleted its log, and the leader of the epoch before would still count it as caught up."""
    image, _ = moved(three(), (1, 2))
    image, _ = moved(image, (1, 2, 3))
    assert partition_of(image) == (1, 1, (1, 2, 3), (1, 2), 2, (3,), (), (), (), (), ())
    image, _ = moved(image, None)  # whoever is added and not needed any more goes, too
    assert partition_of(image)[:4] == (1, 2, (1, 2), (1, 2))


def test_a_leader_that_goes_is_replaced() -> None:
    image, _ = moved(three(), (2, 3))
    assert partition_of(image)[:4] == (2, 1, (2, 3), (2, 3))


def test_what_is_not_in_sync_yet_is_waited_for() -> None:
    image = with_topic(cluster(3), "t", replicas=(1, 2, 3), isr=(1, 2))
    image, _ = moved(image, (1, 3))
    assert partition_of(image)[2:] == ((1, 3, 2), (1, 2), 1, (), (2,), (), (), (), ())
    image = in_sync(image, 1, 2, 3)
    assert partition_of(image)[2:] == ((1, 3), (1, 3), 2, (), (), (), (), (), ())


def test_another_target_drops_what_was_being_added_for_the_first() -> None:
    image, _ = moved(three(), (1, 2, 4))
    image, _ = moved(image, (1, 5, 6))
    assert partition_of(image)[2:] == ((1, 5, 6, 2, 3), (1, 2, 3), 2, (5, 6), (2, 3), (), (), (), ())


def test_cancelling_goes_back_to_the_replicas_there_were() -> None:
    image, _ = moved(three(), (1, 4, 5))
    image = in_sync(image, 1, 2, 3, 4)
    image, error = moved(image, None)
    partition = partition_of(image)
    assert error is None
    assert (set(partition.replicas), partition.isr) == ({1, 2, 3}, (1, 2, 3))
    assert (partition.adding, partition.removing, partition.leader) == ((), (), 1)
    assert moved(image, None)[1] is ErrorCode.no_reassignment_in_progress


def test_what_the_set_cannot_do_without_is_not_dropped() -> None:
    image, _ = moved(three(), (1, 4, 5))
    image = in_sync(image, 1, 4, minimum=2)
    before = partition_of(image)
    image, error = moved(image, None, minimum=2)
    assert error is ErrorCode.invalid_replica_assignment
    assert partition_of(image) is before
    assert moved(image, None, minimum=1)[1] is None


def test_a_leader_that_was_being_added_gives_way_when_the_move_is_cancelled() -> None:
    image, _ = moved(three(), (4, 5, 1))
    image = in_sync(image, 1, 2, 3, 4)
    image = fenced(image, 1)
    assert partition_of(image).leader == 4
    image, error = moved(image, None)
    assert error is None
    assert (partition_of(image).leader, partition_of(image).leader_epoch) == (2, 2)


def test_a_move_that_would_leave_nobody_to_lead_is_refused() -> None:
    image, _ = moved(with_topic(cluster(3), "t", replicas=(1, 2)), (3, 2))
    image = in_sync(image, 1, 3)
    image, _ = apply(image, stop_broker(image, 1, at_least(2)))
    image = fenced(image, 1, minimum=2)
    assert (partition_of(image).leader, partition_of(image).isr) == (3, (3, 1))
    assert moved(image, None)[1] is ErrorCode.invalid_replica_assignment


@pytest.mark.parametrize("target", [(), (1, 1), (1, 9)])
def test_targets_that_are_refused(target: tuple[int, ...]) -> None:
    assert moved(three(), target)[1] is ErrorCode.invalid_replica_assignment


def test_partitions_fail_one_by_one() -> None:
    image = with_topic(cluster(3), "t", partitions=2, replicas=(1, 2))
    records, outcomes = alter_reassignments(
        image,
        [
            Reassignment("t", 0, (2, 3)),
            Reassignment("t", 0, (1, 3)),
            Reassignment("x", 0, (1,)),
            Reassignment("t", 5, None),
            Reassignment("t", 1, (1, 3)),
        ],
        at_least(1),
    )
    assert [each.error and each.error.code for each in outcomes] == [
        ErrorCode.invalid_request,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_or_partition,
        None,
    ]
    assert causes(records) == ["a reassignment was asked for"]


def test_the_replication_factor_rises_when_the_new_replicas_have_joined() -> None:
    image, _ = moved(three(), (1, 2, 3, 4, 5))
    assert image.topics["t"].replication_factor == 3
    before = in_sync(image, 1, 2, 3, 4)
    assert before.topics["t"].replication_factor == 3
    partition = partition_of(before)
    members = tuple((each, 0) for each in (1, 2, 3, 4, 5))
    change = IsrChange(UUID(int=1), 0, partition.leader_epoch, partition.partition_epoch, members)
    records, _ = alter_partitions(before, 1, 0, [change], at_least(2))
    after, delta = apply(before, records)
    assert after.topics["t"].replication_factor == 5
    # The default of min.insync.replicas rises with it.
    assert delta.configs == {ConfigResource(ResourceType.TOPIC, "t")}


# Decommissioning


def test_all_that_a_broker_holds_goes_to_the_least_loaded_others() -> None:
    image = with_topic(cluster(4), "t", partitions=2, replicas=(2, 1, 3))
    image = with_topic(image, "u", topic_id=2, replicas=(1,))
    image = with_topic(image, "v", topic_id=3, replicas=(3, 4))
    records, what = decommission(image, 1, at_least(1))
    assert what == [("t", 0), ("t", 1), ("u", 0)]
    assert set(causes(records)) == {"broker 1 is decommissioned"}
    image, _ = apply(image, records)
    assert partition_of(image, "t", 1).target == (2, 4, 3)
    assert partition_of(image, "u").target == (2,)
    assert decommission(image, 1, at_least(1)) == ([], [])  # all on its way
    with pytest.raises(ApiError, match=r"holds 3 replica\(s\)"):
        unregister_broker(image, 1)


def test_what_a_broker_held_goes_to_a_rack_that_has_nothing_of_it_yet() -> None:
    """Though broker 3, in the rack of broker 2, holds less."""
    image = with_topic(cluster(4, ["a", "b", "b", "a"]), "t", replicas=(1, 2))
    image = with_topic(image, "u", topic_id=2, replicas=(4,))
    image, _ = apply(image, decommission(image, 1, at_least(1))[0])
    assert partition_of(image).target == (4, 2)


def test_a_decommissioned_broker_can_be_unregistered_when_the_others_have_caught_up() -> None:
    image = with_topic(cluster(3), "t", replicas=(1, 2))
    image, _ = apply(image, decommission(image, 1, at_least(2))[0])
    image = in_sync(image, 1, 2, 3, minimum=2)
    assert partition_of(image)[:4] == (3, 1, (3, 2), (3, 2))
    image, _ = apply(image, unregister_broker(image, 1))
    assert list(image.brokers) == [2, 3]


def test_a_broker_that_is_needed_is_not_decommissioned() -> None:
    image = with_topic(cluster(4), "t", replicas=(1, 2, 3))
    image = fenced(image, 4)
    with pytest.raises(ApiError, match=r"t-0 has 3 replica\(s\), and only 2 other broker\(s\)") as refusal:
        decommission(image, 1, at_least(2))
    assert refusal.value.code is ErrorCode.invalid_replication_factor
    with pytest.raises(ApiError, match="No broker 9"):
        decommission(image, 9, at_least(2))


def test_a_dead_broker_can_be_decommissioned() -> None:
    image = fenced(with_topic(cluster(3), "t", replicas=(1, 2)), 1)
    image, _ = apply(image, decommission(image, 1, at_least(1))[0])
    image = in_sync(image, 2, 3)
    assert partition_of(image)[2:4] == ((3, 2), (3, 2))
