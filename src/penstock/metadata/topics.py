"""Decisions about topics: what a request to create, grow or delete them leads to.

Each function looks at an image and a whole request and returns the records to write together with one
outcome per topic, in the order asked; a topic that is named twice is refused, with one outcome. Topics fail
one by one; the records are of those that did not. Nothing is written here, so asking with `validate_only` is
the same decision whose records are thrown away.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.metadata.assignments import (
    PARTITIONS_PER_REQUEST_MAX,
    USE_DEFAULT,
    NewPartitions,
    NewTopic,
    TopicDefaults,
    replicas_of_added,
    replicas_of_new,
)
from penstock.metadata.configs import check_topic_configs
from penstock.metadata.image import MetadataImage, ResourceType, TopicImage
from penstock.metadata.internal_topics import METADATA_TOPIC, is_coordinators, is_internal
from penstock.metadata.records import (
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from penstock.metadata.topic_names import check_name, collision_key
from penstock.types import ApiError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from penstock.metadata.image import BrokerImage


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """What became of one item; of a created topic also what it looks like."""

    name: str | None
    topic_id: UUID | None = None
    error: ApiError | None = None
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


Decision = tuple[list[MetadataRecord], list[TopicOutcome]]


def create_topics(
    image: MetadataImage,
    topics: Sequence[NewTopic],
    *,
    topic_ids: Sequence[UUID],
    defaults: TopicDefaults,
    allow_internal: bool = False,
    waits_for_brokers: bool = False,
) -> Decision:
    """`topic_ids` are fresh random ids, one for each topic asked for.

    With `waits_for_brokers` an internal topic is not created as long as brokers are away that it should have
    replicas on: it would stay without them.
    """
    brokers = image.electable_brokers()
    asked = Counter(topic.name for topic in topics)
    taken = {collision_key(name): name for name in image.topics}
    budget = PARTITIONS_PER_REQUEST_MAX
    records: list[MetadataRecord] = []
    outcomes = []
    once = {topic.name: (topic, topic_id) for topic, topic_id in zip(topics, topic_ids, strict=True)}
    for topic, topic_id in once.values():
        try:
            if asked[topic.name] > 1:
                raise ApiError(ErrorCode.invalid_request, "Duplicate topic name.")
            _check_new_name(image, topic.name, taken, allow_internal)
            if waits_for_brokers and is_coordinators(topic.name):
                _check_brokers_are_there(topic, image, brokers, defaults)
            start = len(taken)  # so that topics with one partition spread over the brokers too
            replicas = replicas_of_new(topic, brokers, defaults, start=start, budget=budget)
            configs = _configs_of_new(topic)
        except ApiError as error:
            outcomes.append(TopicOutcome(topic.name, error=error))
            continue
        budget -= len(replicas)
        taken[collision_key(topic.name)] = topic.name
        records.append(TopicRecord(topic.name, topic_id))
        records += _partition_records(topic_id, 0, replicas)
        records += [
            ConfigRecord(ResourceType.TOPIC, topic.name, name, text) for name, text in configs.items()
        ]
        outcomes.append(TopicOutcome(topic.name, topic_id, None, len(replicas), len(replicas[0]), configs))
    return records, outcomes


def _check_new_name(image: MetadataImage, name: str, taken: Mapping[str, str], allow_internal: bool) -> None:
    check_name(name)
    if name == METADATA_TOPIC or (is_coordinators(name) and not allow_internal):
        raise ApiError(
            ErrorCode.invalid_topic_exception, f"Topic '{name}' is internal: the broker creates it itself."
        )
    if name in image.topics:
        raise ApiError(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
    collision = taken.get(collision_key(name))
    if collision is not None:
        raise ApiError(
            ErrorCode.invalid_topic_exception, f"Topic '{name}' collides with existing topic: {collision}"
        )


def _check_brokers_are_there(
    topic: NewTopic, image: MetadataImage, brokers: Sequence[BrokerImage], defaults: TopicDefaults
) -> None:
    wanted = min(defaults.replication_factor_max, len(image.brokers))
    if topic.replication_factor == USE_DEFAULT and len(brokers) < wanted:
        raise ApiError(
            ErrorCode.coordinator_not_available,
            f"Topic '{topic.name}' should have {wanted} replicas, and {len(brokers)} broker(s) are there.",
        )


def _configs_of_new(topic: NewTopic) -> dict[str, str]:
    names = [name for name, _ in topic.configs]
    if len(set(names)) != len(names):
        raise ApiError(ErrorCode.invalid_config, "Error due to duplicate config keys")
    check_topic_configs(dict(topic.configs))
    return {name: text for name, text in topic.configs if text is not None}


def _partition_records(
    topic_id: UUID, first: int, replicas: Sequence[tuple[int, ...]]
) -> list[MetadataRecord]:
    return [
        PartitionRecord(topic_id, partition, nodes, nodes, nodes[0], leader_epoch=0, partition_epoch=0)
        for partition, nodes in enumerate(replicas, start=first)
    ]


def create_partitions(image: MetadataImage, requests: Sequence[NewPartitions]) -> Decision:
    asked = Counter(request.topic for request in requests)
    budget = PARTITIONS_PER_REQUEST_MAX
    records: list[MetadataRecord] = []
    outcomes = []
    for request in {request.topic: request for request in requests}.values():
        try:
            if asked[request.topic] > 1:
                raise ApiError(ErrorCode.invalid_request, "Duplicate topic name.")
            topic = _growable(image, request)
            replicas = replicas_of_added(request, topic, image.electable_brokers(), budget=budget)
        except ApiError as error:
            outcomes.append(TopicOutcome(request.topic, error=error))
            continue
        budget -= len(replicas)
        records += _partition_records(topic.topic_id, len(topic.partitions), replicas)
        outcomes.append(
            TopicOutcome(
                topic.name, topic.topic_id,
                partitions=request.count, replication_factor=topic.replication_factor,
            )
        )  # fmt: skip
    return records, outcomes


def _growable(image: MetadataImage, request: NewPartitions) -> TopicImage:
    topic = image.topics.get(request.topic)
    if topic is None:
        raise ApiError(ErrorCode.unknown_topic_or_partition, f"The topic '{request.topic}' does not exist.")
    if is_internal(topic.name):
        raise ApiError(
            ErrorCode.invalid_topic_exception,
            f"Topic '{topic.name}' is internal: its keys are placed by the number of its partitions.",
        )
    current = len(topic.partitions)
    if request.count == current:
        raise ApiError(ErrorCode.invalid_partitions, f"Topic already has {current} partition(s).")
    if request.count < current:
        raise ApiError(
            ErrorCode.invalid_partitions,
            f"The topic {topic.name} currently has {current} partition(s);"
            f" {request.count} would not be an increase.",
        )
    return topic


@dataclass(frozen=True, slots=True)
class TopicReference:
    """A topic to be deleted, named either way."""

    name: str | None = None
    topic_id: UUID | None = None


def delete_topics(image: MetadataImage, references: Sequence[TopicReference]) -> Decision:
    asked = Counter(references)
    records: list[MetadataRecord] = []
    outcomes = []
    deleted: set[UUID] = set()
    for reference in asked:
        try:
            if asked[reference] > 1:
                kind = "name" if reference.name is not None else "id"
                raise ApiError(ErrorCode.invalid_request, f"Duplicate topic {kind}.")
            topic = _deletable(image, reference)
            if topic.topic_id in deleted:
                raise ApiError(
                    ErrorCode.invalid_request,
                    "The provided topic name maps to an ID that was already supplied.",
                )
        except ApiError as error:
            outcomes.append(TopicOutcome(reference.name, reference.topic_id, error))
            continue
        deleted.add(topic.topic_id)
        records.append(RemoveTopicRecord(topic.topic_id))
        outcomes.append(TopicOutcome(topic.name, topic.topic_id))
    return records, outcomes


def _deletable(image: MetadataImage, reference: TopicReference) -> TopicImage:
    if reference.name is not None and reference.topic_id is not None:
        raise ApiError(ErrorCode.invalid_request, "You may not specify both topic name and topic id.")
    if reference.name is not None:
        topic = image.topics.get(reference.name)
        if topic is None:
            raise ApiError(ErrorCode.unknown_topic_or_partition)
    elif reference.topic_id is not None:
        topic = image.topic_by_id(reference.topic_id)
        if topic is None:
            raise ApiError(ErrorCode.unknown_topic_id)
    else:
        raise ApiError(ErrorCode.invalid_request, "Neither topic name nor id were specified.")
    if is_internal(topic.name):
        raise ApiError(
            ErrorCode.invalid_topic_exception, f"Topic '{topic.name}' is internal and cannot be deleted."
        )
    return topic
