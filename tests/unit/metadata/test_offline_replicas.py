"""Replicas that are out of service on brokers that are alive."""

from __future__ import annotations

from uuid import UUID

import pytest

from penstock.metadata.brokers import Registration, register_broker, report_offline
from penstock.metadata.elections import ElectionType, elect_leaders
from penstock.metadata.events import events_of
from penstock.metadata.image import NO_LEADER, MetadataImage
from penstock.metadata.leadership import damage_id, replica_id
from penstock.metadata.partition_changes import IsrChange, alter_partitions
from penstock.metadata.snapshot import snapshot_records
from penstock.types import ErrorCode, TopicPartition
from tests.unit.metadata.builders import (
    STORAGE_ID,
    apply,
    at_least,
    causes,
    cluster,
    fenced,
    partition_of,
    with_topic,
)

HURT = UUID(int=1)


def two_topics(isr: tuple[int, ...] = (1, 2, 3)) -> MetadataImage:
    image = with_topic(cluster(3), "t", topic_id=1, replicas=(1, 2, 3), isr=isr)
    return with_topic(image, "other", topic_id=2, replicas=(1, 2, 3))


def told(
    image: MetadataImage, broker_id: int, *topic_ids: UUID, minimum: int = 1
) -> tuple[MetadataImage, list[str | None]]:
    """The image after the broker said that its replicas of these topics are out of service."""
    offline = {replica_id(topic_id, 0) for topic_id in topic_ids}
    records = report_offline(image, broker_id, 0, offline, at_least(minimum))
    return apply(image, records)[0], causes(records)


def test_another_replica_leads_and_other_topics_stay() -> None:
    before = two_topics()
    image, why = told(before, 1, HURT)
    partition = partition_of(image)
    assert (partition.leader, partition.isr, partition.offline) == (2, (2, 3), (1,))
    assert partition_of(image, "other") == partition_of(before, "other")
    assert why == ["the replica on broker 1 is out of service"]


def test_a_follower_leaves_and_nothing_counts_of_what_it_said_before() -> None:
    image, _ = told(two_topics(), 3, HURT)
    partition = partition_of(image)
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 1, (1, 2))


def test_what_was_said_before_changes_nothing() -> None:
    image, _ = told(two_topics(), 3, HURT)
    assert told(image, 3, HURT) == (image, [])
    assert told(two_topics(), 3)[1] == []


def test_back_in_service_it_may_join_again() -> None:
    image, _ = told(two_topics(), 3, HURT)
    partition = partition_of(image)
    joining = IsrChange(HURT, 0, partition.leader_epoch, partition.partition_epoch, ((1, 0), (2, 0), (3, 0)))
    _, (refused,) = alter_partitions(image, 1, 0, [joining], at_least(1))
    assert refused.error is not None
    assert refused.error.code is ErrorCode.ineligible_replica
    image, why = told(image, 3)
    assert (partition_of(image).offline, why) == ((), ["the replica on broker 3 is in service again"])
    again = IsrChange(HURT, 0, 1, partition_of(image).partition_epoch, ((1, 0), (2, 0), (3, 0)))
    _, (agreed,) = alter_partitions(image, 1, 0, [again], at_least(1))
    assert agreed.error is None


def test_a_copy_that_the_minimum_needs_stays_in_sync() -> None:
    image, _ = told(two_topics(isr=(1, 2)), 2, HURT, minimum=2)
    assert partition_of(image).isr == (1, 2)


def test_one_that_has_to_be_filled_anew_is_no_copy_whatever_the_minimum() -> None:
    offline = {replica_id(HURT, 0), damage_id(HURT, 0)}
    image = two_topics(isr=(1, 2))
    image, _ = apply(image, report_offline(image, 2, 0, offline, at_least(2)))
    assert partition_of(image).isr == (1,)
    assert report_offline(image, 2, 0, offline, at_least(2)) == []


def test_but_the_last_one_stays() -> None:
    offline = {replica_id(HURT, 0), damage_id(HURT, 0)}
    image = two_topics(isr=(1,))
    image, _ = apply(image, report_offline(image, 1, 0, offline, at_least(1)))
    assert (partition_of(image).leader, partition_of(image).isr) == (1, (1,))


def test_the_only_one_goes_on_leading_until_another_is_in_sync() -> None:
    image, _ = told(two_topics(isr=(1,)), 1, HURT)
    partition = partition_of(image)
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 0, (1,))
    joining = IsrChange(HURT, 0, 0, partition.partition_epoch, ((1, 0), (2, 0)))
    records, _ = alter_partitions(image, 1, 0, [joining], at_least(1))
    image, _ = apply(image, records)
    assert (partition_of(image).leader, partition_of(image).isr) == (2, (2,))


def test_nobody_elects_it_while_it_is_out_of_service() -> None:
    image, _ = told(two_topics(isr=(1, 2)), 2, HURT, minimum=2)
    image = fenced(image, 1, minimum=2)
    assert (partition_of(image).leader, partition_of(image).isr) == (NO_LEADER, (1, 2))
    image, _ = told(image, 2)
    assert partition_of(image).leader == 2


def test_the_preferred_leader_is_not_elected_while_it_is_out_of_service() -> None:
    image, _ = told(two_topics(), 1, HURT, minimum=3)
    assert 1 in partition_of(image).isr
    _, (outcome,) = elect_leaders(image, [TopicPartition("t", 0)], ElectionType.PREFERRED)
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.preferred_leader_not_available


def test_a_new_process_begins_with_a_clean_slate_and_an_old_one_is_not_heard() -> None:
    image, _ = told(two_topics(), 3, HURT)
    registration = Registration(3, UUID(int=5000), STORAGE_ID, "localhost", 9092)
    records, _ = register_broker(image, registration, broker_epoch=50, is_alive=False, min_insync=at_least(1))
    image, _ = apply(image, records)
    assert partition_of(image).offline == ()
    assert report_offline(image, 3, 0, {replica_id(HURT, 0)}, at_least(1)) == []


def test_snapshots_keep_it() -> None:
    image, _ = told(two_topics(), 3, HURT)
    assert partition_of(apply(MetadataImage(), snapshot_records(image))[0]) == partition_of(image)


@pytest.mark.parametrize(
    ("before", "now", "kind"), [((), (HURT,), "replica_offline"), ((HURT,), (), "replica_online")]
)
def test_the_cluster_log_tells_of_it(before: tuple[UUID, ...], now: tuple[UUID, ...], kind: str) -> None:
    image, _ = told(two_topics(), 3, *before)
    records = report_offline(image, 3, 0, {replica_id(each, 0) for each in now}, at_least(1))
    (event,) = [each for each in events_of(image, records) if each.kind == kind]
    assert (event.topic, event.nodes) == ("t", (3,))
