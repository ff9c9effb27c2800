"""Partitions that no in-sync replica can lead: who is waited for, and who leads then."""

from __future__ import annotations

from uuid import UUID

import pytest

from penstock.metadata.brokers import Registration, fence_broker, register_broker, unfence_broker
from penstock.metadata.image import NO_LEADER, MetadataImage
from penstock.metadata.records import PartitionChangeRecord
from penstock.metadata.recovery import Ends, ReplicaEnd, leaderless, recover, replicas_to_ask
from penstock.replication.divergence import LogEnd
from penstock.types import TopicPartition
from tests.unit.metadata.builders import (
    STORAGE_ID,
    apply,
    at_least,
    causes,
    cluster,
    partition_of,
    with_topic,
)

T0 = TopicPartition("t", 0)
LONGEST = {1: LogEnd(0, 3), 2: LogEnd(1, 2), 3: LogEnd(0, 4)}


def after_power_failure(*back: int, wiped: tuple[int, ...] = ()) -> MetadataImage:
    """Of three replicas all have come to register, uncleanly or with empty disks; these are in service."""
    image = with_topic(cluster(3), "t", replicas=(1, 2, 3))
    for broker_id in (1, 2, 3):
        storage_id = UUID(int=70 + broker_id) if broker_id in wiped else STORAGE_ID
        registration = Registration(
            broker_id, UUID(int=500 + broker_id), storage_id, "localhost", 9092, is_clean=False
        )
        records, _ = register_broker(
            image, registration, broker_epoch=50 + broker_id, is_alive=False, min_insync=at_least(1)
        )
        image, _ = apply(image, records)
    for broker_id in back:
        image, _ = apply(image, unfence_broker(image, broker_id, at_least(1)))
    return image


def told(image: MetadataImage, *broker_ids: int) -> Ends:
    epoch = partition_of(image).leader_epoch
    return {each: ReplicaEnd(image.brokers[each].epoch, epoch, LONGEST[each]) for each in broker_ids}


def elected(image: MetadataImage, ends: Ends) -> int:
    records = recover(image, leaderless(image), {T0: ends})
    return partition_of(apply(image, records)[0]).leader


def test_all_who_may_have_the_committed_records_are_waited_for() -> None:
    for back in ((1,), (1, 2), (3, 1)):
        assert leaderless(after_power_failure(*back)) == []
    assert [each.where for each in leaderless(after_power_failure(1, 2, 3))] == [T0]


def test_who_has_lost_its_disk_is_not_waited_for() -> None:
    assert [each.where for each in leaderless(after_power_failure(1, 3, wiped=(2,)))] == [T0]


def test_when_all_disks_are_lost_whoever_is_there_begins() -> None:
    image = after_power_failure(2, wiped=(1, 2, 3))
    (waiting,) = leaderless(image)
    assert waiting.reason == "every replica has lost its disk"
    assert elected(image, told(image, 2)) == 2


def test_a_replica_that_never_was_in_the_last_set_needs_consent() -> None:
    image = with_topic(cluster(2), "t", replicas=(1, 2), isr=(1,))
    registration = Registration(1, UUID(int=501), UUID(int=71), "localhost", 9092)
    records, _ = register_broker(image, registration, broker_epoch=50, is_alive=False, min_insync=at_least(1))
    image, _ = apply(image, records)
    image, _ = apply(image, unfence_broker(image, 1, at_least(1)))
    assert partition_of(image).leader == NO_LEADER
    assert leaderless(image) == []
    (waiting,) = leaderless(image, lambda where: where == T0)
    assert waiting.reason == "unclean.leader.election.enable is set"


def test_members_of_a_set_that_is_not_empty_have_everything_and_are_waited_for() -> None:
    image = with_topic(cluster(2), "t", replicas=(1, 2), isr=(1,))
    image, _ = apply(image, fence_broker(image, 1, "test", at_least(1)))
    assert partition_of(image).leader == NO_LEADER
    assert leaderless(image) == []


def test_the_greatest_epoch_leads_before_the_longest_log() -> None:
    image = after_power_failure(1, 2, 3)
    records = recover(image, leaderless(image), {T0: told(image, 1, 2, 3)})
    (cause,) = causes(records)
    assert cause == (
        "not a clean election: the logs of 1, 2, 3 may lack their ends; 1 ends at 3 in epoch 0,"
        " 2 ends at 2 in epoch 1, 3 ends at 4 in epoch 0. What was acknowledged from offset 2 on may be lost"
    )
    partition = partition_of(apply(image, records)[0])
    assert (partition.leader, partition.isr, partition.last_isr) == (2, (2,), ())


def test_who_lives_and_does_not_answer_is_waited_for() -> None:
    image = after_power_failure(1, 2, 3)
    assert elected(image, told(image, 1, 3)) == NO_LEADER
    assert elected(image, {}) == NO_LEADER


def test_what_was_told_before_something_changed_does_not_count() -> None:
    image = after_power_failure(1, 2, 3)
    waiting, ends = leaderless(image), {T0: told(image, 1, 2, 3)}
    changed, _ = apply(
        image, [PartitionChangeRecord(partition=0, topic_id=image.topics["t"].topic_id, partition_epoch=99)]
    )
    assert recover(changed, waiting, ends) == []
    restarted = {T0: {**ends[T0], 3: ends[T0][3]._replace(broker_epoch=7)}}
    assert recover(image, waiting, restarted) == []


@pytest.mark.parametrize("back", [(1,), (1, 3)])
def test_live_replicas_are_asked(back: tuple[int, ...]) -> None:
    image = after_power_failure(*back, wiped=(1, 2, 3))
    assert sorted(replicas_to_ask(image, leaderless(image))) == list(back)
