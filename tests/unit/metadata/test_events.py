from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.metadata.assignments import NewPartitions, NewTopic, TopicDefaults
from penstock.metadata.brokers import Registration, fence_broker, register_broker, stop_broker, unfence_broker
from penstock.metadata.events import ClusterEvent, EventKind, events_of
from penstock.metadata.image import MetadataImage
from penstock.metadata.partition_changes import IsrChange, alter_partitions
from penstock.metadata.reassignments import Reassignment, alter_reassignments
from penstock.metadata.records import (
    BootstrappedRecord,
    ClusterRecord,
    LeaderChangeRecord,
    NewLeaderEpochsRecord,
    PartitionChangeRecord,
    UnregisterBrokerRecord,
    VotersRecord,
)
from penstock.metadata.topics import TopicReference, create_partitions, create_topics, delete_topics
from tests.unit.metadata.builders import STORAGE_ID, apply, at_least, cluster, fenced, with_topic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.metadata.records import MetadataRecord


def told(image: MetadataImage, records: Sequence[MetadataRecord]) -> list[str]:
    apply(image, records)  # what is told of can happen
    return [f"{event.kind}: {event.text}" for event in events_of(image, records)]


def test_the_quorum() -> None:
    records = [
        LeaderChangeRecord(1001),
        VotersRecord((1001, 1002), ("a", "b")),
        ClusterRecord("c1"),
        BootstrappedRecord(),
    ]
    assert told(MetadataImage(), records) == [
        "controller_elected: node 1001 is the active controller",
        "voters_changed: controllers that vote: [1001, 1002]",
        "cluster_created: cluster c1 begins",
    ]
    assert events_of(MetadataImage(), records, quorum_epoch=7)[0].epoch == 7


def test_the_life_of_a_broker() -> None:
    image = MetadataImage()
    registration = Registration(1, UUID(int=5), STORAGE_ID, "host", 9092)
    records, _ = register_broker(image, registration, broker_epoch=3, is_alive=False, min_insync=at_least(1))
    assert told(image, records) == ["broker_registered: broker 1 registered at host:9092"]
    assert events_of(image, records)[0].cause == "new in the cluster"
    image, _ = apply(image, records)
    records = unfence_broker(image, 1, at_least(1))
    assert told(image, records) == ["broker_unfenced: broker 1 is in service"]
    image, _ = apply(image, records)
    assert told(image, stop_broker(image, 1, at_least(1))) == ["broker_stopping: broker 1 is stopping"]
    (event,) = events_of(image, fence_broker(image, 1, "connection refused", at_least(1)))
    assert event == ClusterEvent(
        EventKind.BROKER_FENCED, "broker 1 is fenced", "connection refused", 3, nodes=(1,)
    )
    assert told(image, [UnregisterBrokerRecord(1, 3)]) == [
        "broker_unregistered: broker 1 is no longer part of the cluster"
    ]


def test_the_death_of_a_leader_is_told_with_its_cause_and_epoch() -> None:
    image = with_topic(cluster(3), "orders", replicas=(1, 2, 3))
    fence, election, shrink = events_of(image, fence_broker(image, 1, "no heartbeat", at_least(2)))
    assert fence.kind is EventKind.BROKER_FENCED
    assert election.as_json() == {
        "kind": "leader_elected",
        "text": "orders-0 is led by 2 (was 1), epoch 1",
        "cause": "broker 1 was fenced: no heartbeat",
        "epoch": 1,
        "topic": "orders",
        "partition": 0,
        "nodes": [2, 1],
    }
    assert (shrink.kind, shrink.text) == (EventKind.ISR_SHRUNK, "orders-0 in sync: [1, 2, 3] → [2, 3]")


def test_a_partition_without_a_leader() -> None:
    image = with_topic(cluster(1), "t")
    assert told(image, fence_broker(image, 1, "gone", at_least(1))) == [
        "broker_fenced: broker 1 is fenced",
        "leader_lost: t-0 has no leader: no in-sync replica is alive (was 1), epoch 1",
    ]
    image = fenced(image, 1)
    assert told(image, unfence_broker(image, 1, at_least(1)))[1:] == [
        "leader_elected: t-0 is led by 1 (was none), epoch 2"
    ]


def test_changes_of_one_partition_in_one_batch_follow_each_other() -> None:
    image = with_topic(cluster(2), "t", replicas=(1, 2))
    topic_id = UUID(int=1)
    records = [
        PartitionChangeRecord(topic_id, 0, 1, isr=(1,)),
        PartitionChangeRecord(topic_id, 0, 2, isr=(1, 2)),
    ]
    assert told(image, records) == [
        "isr_shrunk: t-0 in sync: [1, 2] → [1]",
        "isr_expanded: t-0 in sync: [1] → [1, 2]",
    ]


def test_topics() -> None:
    image = cluster(1)
    topic_id = UUID(int=9)
    records, _ = create_topics(
        image, [NewTopic("t", 3)], topic_ids=[topic_id], defaults=TopicDefaults()
    )  # fmt: skip
    assert told(image, records) == ["topic_created: topic t created with 3 partition(s)"]
    image, _ = apply(image, records)
    records, _ = create_partitions(image, [NewPartitions("t", 5)])
    assert told(image, records) == ["partitions_added: 2 partition(s) added to topic t"]
    records, _ = delete_topics(image, [TopicReference("t")])
    assert told(image, records) == ["topic_deleted: topic t deleted"]
    assert told(image, [NewLeaderEpochsRecord(1)]) == [
        "leader_epochs_begun: broker 1 goes on with what it leads, under new leader epochs"
    ]


def test_a_move_from_its_beginning_to_its_end() -> None:
    image = with_topic(cluster(3), "t", replicas=(1, 2))
    records, _ = alter_reassignments(image, [Reassignment("t", 0, (1, 3))], at_least(1))
    assert told(image, records) == ["reassignment_started: t-0 moves from replicas [1, 2] to [1, 3]"]
    image, _ = apply(image, records)
    change = IsrChange(UUID(int=1), 0, 0, 1, ((1, 0), (2, 0), (3, 0)))
    records, _ = alter_partitions(image, 1, 0, [change], at_least(1))
    assert told(image, records) == [
        "isr_expanded: t-0 in sync: [1, 2] → [1, 3]",
        "isr_shrunk: t-0 in sync: [1, 2] → [1, 3]",
        "reassignment_ended: t-0 has moved and is on replicas [1, 3]",
    ]


def test_an_event_without_a_partition_says_nothing_of_one() -> None:
    event = events_of(MetadataImage(), [LeaderChangeRecord(1)])[0]
    assert json.loads(json.dumps(event.as_json())) == {
        "kind": "controller_elected", "text": "node 1 is the active controller", "nodes": [1],
    }  # fmt: skip
