from __future__ import annotations

from uuid import UUID

import pytest

from penstock.metadata.assignments import (
    PARTITIONS_PER_REQUEST_MAX,
    NewPartitions,
    NewTopic,
    TopicDefaults,
)
from penstock.metadata.image import MetadataImage, ResourceType
from penstock.metadata.records import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from penstock.metadata.topics import (
    TopicOutcome,
    TopicReference,
    create_partitions,
    create_topics,
    delete_topics,
)
from penstock.types import ErrorCode
from tests.unit.metadata.builders import apply, cluster, fenced, with_topic


def create(
    image: MetadataImage,
    *topics: NewTopic,
    defaults: TopicDefaults | None = None,
    allow_internal: bool = False,
    waits_for_brokers: bool = False,
) -> tuple[list[object], list[TopicOutcome]]:
    ids = [UUID(int=100 + index) for index in range(len(topics))]
    records, outcomes = create_topics(
        image,
        topics,
        topic_ids=ids,
        defaults=defaults or TopicDefaults(),
        allow_internal=allow_internal,
        waits_for_brokers=waits_for_brokers,
    )
    return list(records), outcomes


def refusal(outcome: TopicOutcome) -> tuple[ErrorCode, str]:
    assert outcome.error is not None
    return outcome.error.code, outcome.error.message or ""


def test_a_topic_with_everything_by_default() -> None:
    records, (outcome,) = create(cluster(), NewTopic("a"))
    topic_id = UUID(int=100)
    assert records == [TopicRecord("a", topic_id), PartitionRecord(topic_id, 0, (1,), (1,), 1, 0, 0)]
    assert outcome == TopicOutcome("a", topic_id, None, 1, 1, {})


def test_defaults_of_the_node() -> None:
    _, (outcome,) = create(
        cluster(5), NewTopic("a"), defaults=TopicDefaults(partitions=4, replication_factor_max=3)
    )
    assert (outcome.partitions, outcome.replication_factor) == (4, 3)


def test_configs_become_records_of_the_same_batch() -> None:
    records, (outcome,) = create(cluster(), NewTopic("a", configs=[("retention.ms", "5")]))
    assert records[-1] == ConfigRecord(ResourceType.TOPIC, "a", "retention.ms", "5")
    assert outcome.configs == {"retention.ms": "5"}


def test_topics_fail_one_by_one() -> None:
    records, outcomes = create(cluster(), NewTopic("a", 0), NewTopic("b"), NewTopic(""))
    assert [outcome.error is None for outcome in outcomes] == [False, True, False]
    assert [record.name for record in records if isinstance(record, TopicRecord)] == ["b"]


def test_a_name_twice_in_one_request_is_refused_once() -> None:
    """librdkafka cannot read an answer that names a topic twice."""
    records, outcomes = create(cluster(), NewTopic("a"), NewTopic("a"))
    assert records == []
    assert [refusal(outcome) for outcome in outcomes] == [
        (ErrorCode.invalid_request, "Duplicate topic name.")
    ]


@pytest.mark.parametrize(
    ("topic", "code", "words"),
    [
        (NewTopic("old"), ErrorCode.topic_already_exists, "Topic 'old' already exists."),
        (NewTopic("o_d.t"), ErrorCode.invalid_topic_exception, "collides with existing topic: o.d_t"),
        (NewTopic("a b"), ErrorCode.invalid_topic_exception, "ASCII alphanumerics"),
        (NewTopic("x" * 250), ErrorCode.invalid_topic_exception, "max allowed length 249"),
        (NewTopic(".."), ErrorCode.invalid_topic_exception, "not allowed"),
        (NewTopic("__cluster_metadata"), ErrorCode.invalid_topic_exception, "internal"),
        (NewTopic("__consumer_offsets"), ErrorCode.invalid_topic_exception, "internal"),
        (NewTopic("a", 0), ErrorCode.invalid_partitions, "non-positive"),
        (NewTopic("a", -2), ErrorCode.invalid_partitions, "non-positive"),
        (NewTopic("a", 1, 0), ErrorCode.invalid_replication_factor, "non-positive"),
        (NewTopic("a", 1, 3), ErrorCode.invalid_replication_factor, "only 2 broker(s) are registered"),
        (NewTopic("a", PARTITIONS_PER_REQUEST_MAX + 1), ErrorCode.policy_violation, "at most 10000"),
        (NewTopic("a", configs=[("retention.ms", "x")]), ErrorCode.invalid_config, "type LONG"),
        (NewTopic("a", configs=[("retention.ms", None)]), ErrorCode.invalid_config, "Null value"),
        (NewTopic("a", configs=[("flush", "os")] * 2), ErrorCode.invalid_config, "duplicate config keys"),
        (NewTopic("a", 1, -1, [(0, (1,))]), ErrorCode.invalid_request, "numPartitions was not set to -1"),
        (
            NewTopic("a", -1, 1, [(0, (1,))]),
            ErrorCode.invalid_request,
            "replication factor was not set to -1",
        ),
        (NewTopic("a", assignments=[(1, (1,))]), ErrorCode.invalid_replica_assignment, "consecutive"),
        (NewTopic("a", assignments=[(0, (1,))] * 2), ErrorCode.invalid_replica_assignment, "consecutive"),
        (NewTopic("a", assignments=[(0, ())]), ErrorCode.invalid_replica_assignment, "empty replica list"),
        (NewTopic("a", assignments=[(0, (1, 1))]), ErrorCode.invalid_replica_assignment, "more than once"),
        (NewTopic("a", assignments=[(0, (7,))]), ErrorCode.invalid_replica_assignment, "includes broker 7"),
        (
            NewTopic("a", assignments=[(0, (1, 2)), (1, (1,))]),
            ErrorCode.invalid_replica_assignment,
            "not consistent",
        ),
    ],
)
def test_what_is_refused(topic: NewTopic, code: ErrorCode, words: str) -> None:
    image = with_topic(with_topic(cluster(2), "old"), "o.d_t", topic_id=2)
    records, (outcome,) = create(image, topic)
    assert records == []
    found_code, found_words = refusal(outcome)
    assert found_code is code
    assert words in found_words


def test_collisions_inside_one_request() -> None:
    _, outcomes = create(cluster(), NewTopic("a.b"), NewTopic("a_b"))
    assert outcomes[0].error is None
    assert refusal(outcomes[1])[0] is ErrorCode.invalid_topic_exception


def test_the_limit_counts_the_whole_request() -> None:
    half = PARTITIONS_PER_REQUEST_MAX // 2
    _, outcomes = create(cluster(), NewTopic("a", half), NewTopic("b", half), NewTopic("c", 1))
    assert [outcome.error is None for outcome in outcomes] == [True, True, False]


def test_an_internal_topic_waits_for_the_brokers_that_it_should_be_on() -> None:
    image = fenced(cluster(3), 2)
    offsets = NewTopic("__consumer_offsets", 16)
    _, (outcome, other) = create(
        image, offsets, NewTopic("orders"), allow_internal=True, waits_for_brokers=True
    )
    assert refusal(outcome)[0] is ErrorCode.coordinator_not_available
    assert "3 replicas" in refusal(outcome)[1]
    assert other.replication_factor == 2, "others take what there is"
    _, (outcome,) = create(cluster(3), offsets, allow_internal=True, waits_for_brokers=True)
    assert outcome.replication_factor == 3
    _, (outcome,) = create(fenced(cluster(5), 2, 4), offsets, allow_internal=True, waits_for_brokers=True)
    assert outcome.replication_factor == 3, "as many as it should have are there"
    _, (outcome,) = create(image, offsets, allow_internal=True)
    assert outcome.replication_factor == 2, "not for ever"


def test_the_broker_itself_may_create_an_internal_topic() -> None:
    _, (outcome,) = create(cluster(), NewTopic("__consumer_offsets", 16), allow_internal=True)
    assert outcome.error is None
    _, (outcome,) = create(cluster(), NewTopic("__cluster_metadata"), allow_internal=True)
    assert outcome.error is not None


def test_a_manual_assignment_in_any_order() -> None:
    records, (outcome,) = create(cluster(3), NewTopic("a", assignments=[(1, (3, 1)), (0, (2, 3))]))
    assert [(each.partition, each.replicas, each.leader) for each in records[1:]] == [  # type: ignore[attr-defined]
        (0, (2, 3), 2),
        (1, (3, 1), 3),
    ]
    assert (outcome.partitions, outcome.replication_factor) == (2, 2)


def test_topics_of_one_partition_spread_over_the_brokers() -> None:
    image = cluster(3)
    leaders = []
    for index in range(6):
        records, _ = create_topics(
            image,
            [NewTopic(f"t{index}", 1, 1)],
            topic_ids=[UUID(int=index + 1)],
            defaults=TopicDefaults(),
        )
        image, _ = apply(image, records)
        leaders.append(image.topics[f"t{index}"].partitions[0].leader)
    assert sorted(leaders) == [1, 1, 2, 2, 3, 3]


def test_more_partitions() -> None:
    image = with_topic(cluster(3), "a", partitions=2, replicas=(2, 3))
    records, (outcome,) = create_partitions(image, [NewPartitions("a", 4)])
    assert [(each.partition, len(each.replicas)) for each in records] == [(2, 2), (3, 2)]  # type: ignore[union-attr]
    assert (outcome.error, outcome.partitions) == (None, 4)
    records, _ = create_partitions(image, [NewPartitions("a", 3, [(1, 3)])])
    assert records == [PartitionRecord(UUID(int=1), 2, (1, 3), (1, 3), 1, 0, 0)]


@pytest.mark.parametrize(
    ("wanted", "code", "words"),
    [
        (NewPartitions("b", 4), ErrorCode.unknown_topic_or_partition, "does not exist"),
        (NewPartitions("a", 2), ErrorCode.invalid_partitions, "already has 2 partition(s)"),
        (NewPartitions("a", 1), ErrorCode.invalid_partitions, "1 would not be an increase"),
        (NewPartitions("a", -5), ErrorCode.invalid_partitions, "would not be an increase"),
        (NewPartitions("a", 20_000), ErrorCode.policy_violation, "at most 10000"),
        (NewPartitions("a", 3, []), ErrorCode.invalid_replica_assignment, "0 assignment(s)"),
        (NewPartitions("a", 3, [(9,)]), ErrorCode.invalid_replica_assignment, "includes broker 9"),
        (NewPartitions("__consumer_offsets", 9), ErrorCode.invalid_topic_exception, "internal"),
        (NewPartitions("__penstock_ids", 9), ErrorCode.invalid_topic_exception, "internal"),
    ],
)
def test_partitions_that_are_refused(wanted: NewPartitions, code: ErrorCode, words: str) -> None:
    image = with_topic(cluster(), "a", partitions=2)
    image = with_topic(image, "__consumer_offsets", topic_id=2)
    image = with_topic(image, "__penstock_ids", topic_id=3)
    records, (outcome,) = create_partitions(image, [wanted])
    assert records == []
    assert refusal(outcome)[0] is code
    assert words in refusal(outcome)[1]


def test_deletion_by_name_and_by_id() -> None:
    image = with_topic(with_topic(cluster(), "a"), "b", topic_id=2)
    records, outcomes = delete_topics(image, [TopicReference("a"), TopicReference(topic_id=UUID(int=2))])
    assert records == [RemoveTopicRecord(UUID(int=1)), RemoveTopicRecord(UUID(int=2))]
    assert [(outcome.name, outcome.topic_id) for outcome in outcomes] == [
        ("a", UUID(int=1)),
        ("b", UUID(int=2)),
    ]


@pytest.mark.parametrize(
    ("reference", "code"),
    [
        (TopicReference("b"), ErrorCode.unknown_topic_or_partition),
        (TopicReference(topic_id=UUID(int=9)), ErrorCode.unknown_topic_id),
        (TopicReference("a", UUID(int=1)), ErrorCode.invalid_request),
        (TopicReference(), ErrorCode.invalid_request),
        (TopicReference("__consumer_offsets"), ErrorCode.invalid_topic_exception),
        (TopicReference("__penstock_ids"), ErrorCode.invalid_topic_exception),
    ],
)
def test_deletions_that_are_refused(reference: TopicReference, code: ErrorCode) -> None:
    image = with_topic(with_topic(cluster(), "a"), "__consumer_offsets", topic_id=2)
    image = with_topic(image, "__penstock_ids", topic_id=3)
    records, (outcome,) = delete_topics(image, [reference])
    assert records == []
    assert refusal(outcome)[0] is code


def test_one_topic_is_deleted_once_however_it_is_named() -> None:
    image = with_topic(cluster(), "a")
    records, outcomes = delete_topics(image, [TopicReference("a"), TopicReference("a")])
    assert records == []
    assert [refusal(outcome)[0] for outcome in outcomes] == [ErrorCode.invalid_request]
    records, outcomes = delete_topics(image, [TopicReference("a"), TopicReference(topic_id=UUID(int=1))])
    assert len(records) == 1
    assert refusal(outcomes[1])[0] is ErrorCode.invalid_request
