from __future__ import annotations

from uuid import UUID

import pytest

from penstock.metadata.image import ConfigResource, ImageDraft, MetadataImage, ResourceType
from penstock.metadata.records import (
    BootstrappedRecord,
    ClusterRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    LeaderChangeRecord,
    MetadataRecord,
    MetadataRecordError,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    ShutdownBrokerRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    VotersRecord,
)
from tests.unit.metadata.builders import apply, cluster, partition_of, registration, with_topic

A, B = UUID(int=1), UUID(int=2)


def partition(topic_id: UUID, index: int = 0) -> PartitionRecord:
    return PartitionRecord(topic_id, index, (1,), (1,), 1, 0, 0)


def test_a_published_image_never_changes() -> None:
    before = with_topic(cluster(), "a", configs={"retention.ms": "5"})
    topic, overrides = before.topics["a"], before.configs(ResourceType.TOPIC, "a")
    after, _ = apply(
        before,
        [
            PartitionChangeRecord(A, 0, 1, leader_epoch=1),
            partition(A, 1),
            ConfigRecord(ResourceType.TOPIC, "a", "retention.ms", "6"),
            TopicRecord("b", B),
            FenceBrokerRecord(1, 0),
            ProducerIdsRecord(1, 1000),
        ],
    )
    assert (topic.partitions[0].leader_epoch, list(topic.partitions), overrides) == (
        0,
        [0],
        {"retention.ms": "5"},
    )
    assert (list(before.topics), before.next_producer_id, len(before.live_brokers())) == (["a"], 0, 1)
    assert after.topics["a"].partitions[0].leader_epoch == 1
    assert list(after.topics["a"].partitions) == [0, 1]
    assert after.configs(ResourceType.TOPIC, "a") == {"retention.ms": "6"}
    assert (list(after.topics), after.next_producer_id, after.live_brokers()) == (["a", "b"], 1000, [])


def test_what_a_batch_does_not_touch_stays_the_same_object() -> None:
    before = with_topic(with_topic(cluster(), "a", configs={"flush": "os"}), "b", topic_id=2)
    after, _ = apply(before, [PartitionChangeRecord(B, 0, 1, leader_epoch=1)])
    assert after.topics["a"] is before.topics["a"]
    assert after.configs(ResourceType.TOPIC, "a") is before.configs(ResourceType.TOPIC, "a")


def test_the_delta_names_what_changed() -> None:
    before = with_topic(with_topic(cluster(), "gone", topic_id=1), "grown", topic_id=2)
    new = UUID(int=3)
    after, delta = apply(
        before,
        [
            RemoveTopicRecord(A),
            partition(B, 1),
            TopicRecord("new", new),
            partition(new),
            registration(2),
        ],
    )
    assert delta.deleted == {"gone": before.topics["gone"]}
    assert delta.created == {"new": after.topics["new"]}
    assert delta.changed == {"grown": after.topics["grown"]}
    assert delta.brokers == {2}
    assert delta.configs == frozenset()


def test_a_topic_deleted_and_created_again_in_one_batch_is_both() -> None:
    before = with_topic(cluster(), "a", configs={"flush": "os"})
    after, delta = apply(before, [RemoveTopicRecord(A), TopicRecord("a", B), partition(B)])
    assert delta.deleted["a"].topic_id == A
    assert delta.created["a"].topic_id == B
    assert after.configs(ResourceType.TOPIC, "a") == {}
    assert after.topic_by_id(A) is None
    assert after.topic_by_id(B) is after.topics["a"]


def test_configs_of_a_broker_are_a_change_for_all_topics() -> None:
    before = with_topic(cluster(), "a")
    _, delta = apply(before, [ConfigRecord(ResourceType.BROKER, "", "log.retention.ms", "5")])
    assert delta.configs == {ConfigResource(ResourceType.BROKER, ""), ConfigResource(ResourceType.TOPIC, "a")}


def test_a_removed_config_leaves_nothing_behind() -> None:
    before = with_topic(cluster(), "a", configs={"flush": "os"})
    after, delta = apply(before, [ConfigRecord(ResourceType.TOPIC, "a", "flush")])
    assert after.overrides == {}
    assert delta.configs == {ConfigResource(ResourceType.TOPIC, "a")}


def test_a_broker_is_fenced_until_it_is_unfenced() -> None:
    image, _ = apply(MetadataImage(), [registration(1, epoch=4)])
    assert image.live_brokers() == []
    image, _ = apply(image, [UnfenceBrokerRecord(1, 4)])
    assert [broker.id for broker in image.live_brokers()] == [1]
    image, _ = apply(image, [UnregisterBrokerRecord(1, 4)])
    assert image.brokers == {}


def test_producer_ids_never_go_back() -> None:
    image, _ = apply(MetadataImage(), [ProducerIdsRecord(1, 2000), ProducerIdsRecord(2, 1000)])
    assert image.next_producer_id == 2000


def test_a_stopping_broker_serves_and_is_not_electable() -> None:
    image, delta = apply(cluster(2), [ShutdownBrokerRecord(2, 0)])
    assert [broker.id for broker in image.live_brokers()] == [1, 2]
    assert [broker.id for broker in image.electable_brokers()] == [1]
    assert delta.brokers == {2}
    image, _ = apply(image, [registration(2, epoch=5), UnfenceBrokerRecord(2, 5)])
    assert [broker.id for broker in image.electable_brokers()] == [1, 2]


def test_records_of_the_quorum_change_nothing() -> None:
    before = with_topic(cluster(), "a")
    records = [LeaderChangeRecord(1), VotersRecord((1,), ("x",)), BootstrappedRecord()]
    after, delta = apply(before, records)
    assert after == before
    assert (delta.changed, delta.brokers) == ({}, frozenset())


def test_a_cluster_keeps_its_id() -> None:
    image, _ = apply(MetadataImage(), [ClusterRecord("one")])
    image, _ = apply(image, [ClusterRecord("one"), registration(1)])
    assert image.cluster_id == "one"
    with pytest.raises(MetadataRecordError, match="cluster one cannot become two"):
        apply(image, [ClusterRecord("two")])


def test_the_least_replicated_partition_gives_the_replication_factor() -> None:
    image = with_topic(cluster(3), "a", replicas=(1, 2, 3))
    image, _ = apply(image, [partition(A, 1)])
    assert image.topics["a"].replication_factor == 1
    image, delta = apply(image, [PartitionChangeRecord(A, 1, 1, replicas=(1, 2, 3), adding=(2, 3))])
    assert (image.topics["a"].replication_factor, delta.configs) == (1, frozenset())
    image, delta = apply(image, [PartitionChangeRecord(A, 1, 2, adding=())])
    assert image.topics["a"].replication_factor == 3
    assert delta.configs == {ConfigResource(ResourceType.TOPIC, "a")}


@pytest.mark.parametrize(
    "record",
    [
        TopicRecord("a", B),
        TopicRecord("b", A),
        RemoveTopicRecord(B),
        partition(A),
        partition(B),
        PartitionChangeRecord(A, 1, 1),
        UnfenceBrokerRecord(1, 5),
        FenceBrokerRecord(9, 0),
        FeatureLevelRecord("metadata.version", 99),
        FeatureLevelRecord("transaction.version", 1),
    ],
)
def test_a_record_that_contradicts_the_image_is_refused(record: MetadataRecord) -> None:
    draft = ImageDraft(with_topic(cluster(), "a"))
    with pytest.raises(MetadataRecordError):
        draft.apply(record)


def test_a_last_member_that_may_have_lost_data_as_version_0_1_wrote_it() -> None:
    """It stayed in the set, marked, until it was elected."""
    topic = UUID(int=1)
    image = with_topic(cluster(2), "t", replicas=(1, 2))
    marked, _ = apply(image, [PartitionChangeRecord(topic, 0, 1, leader=-1, isr=(1,), unclean=True)])
    assert (partition_of(marked).isr, partition_of(marked).last_isr) == ((), (1,))
    elected, _ = apply(marked, [PartitionChangeRecord(topic, 0, 2, leader=1, unclean=False)])
    assert (partition_of(elected).isr, partition_of(elected).last_isr) == ((1,), ())
    in_snapshot, _ = apply(
        cluster(2),
        [TopicRecord("t", topic), PartitionRecord(topic, 0, (1, 2), (1,), -1, 3, 4, unclean=True)],
    )
    assert (partition_of(in_snapshot).isr, partition_of(in_snapshot).last_isr) == ((), (1,))
