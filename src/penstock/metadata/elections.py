"""Elections that somebody asks for (ElectLeaders).

Leadership goes back to the preferred replicas; or, unclean, whoever has most leads a partition that no
in-sync replica can lead, see `recovery`. Elections that a broker's death calls for are part of `leadership`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from penstock.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from penstock.metadata.leadership import Liveness, advanced, change_record
from penstock.metadata.recovery import Ends, Leaderless, cause_of, current, led_by_greatest
from penstock.types import ApiError, ErrorCode, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.metadata.records import MetadataRecord


class ElectionType(IntEnum):
    """As numbered in the Kafka protocol."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class ElectionOutcome:
    topic: str
    partition: int
    error: ApiError | None = None


def elect_leaders(
    image: MetadataImage,
    partitions: Sequence[TopicPartition] | None,
    kind: int,
    ends: Mapping[TopicPartition, Ends] = MappingProxyType({}),
) -> tuple[list[MetadataRecord], list[ElectionOutcome]]:
    """None asks for all partitions; the outcomes are of those that needed an election then.

    Of an unclean election `ends` says what the replicas of partitions without a leader have.
    """
    check_type(kind)
    brokers = Liveness.of(image)
    records: list[MetadataRecord] = []
    outcomes = []
    for wanted in _every(image) if partitions is None else dict.fromkeys(partitions):
        try:
            topic, before = _partition(image, wanted)
            if kind == ElectionType.UNCLEAN:
                after, cause = _led_by_greatest(image, before, ends.get(wanted, {}))
            else:
                after = _led_by_preferred(before, brokers)
                cause = f"{after.leader} is the preferred leader"
        except ApiError as error:
            if partitions is not None or error.code is not ErrorCode.election_not_needed:
                outcomes.append(ElectionOutcome(*wanted, error))
            continue
        records.append(change_record(topic.topic_id, wanted.partition, before, after, cause))
        outcomes.append(ElectionOutcome(*wanted))
    return records, outcomes


def check_type(kind: int) -> None:
    if kind not in list(ElectionType):
        raise ApiError(ErrorCode.invalid_request, f"Unknown type of election: {kind}.")


def without_leader(image: MetadataImage, partitions: Sequence[TopicPartition] | None) -> list[Leaderless]:
    """Those of the partitions, or of all, that an unclean election can be asked for."""
    return [
        Leaderless(wanted, topic.topic_id, topic.partitions[wanted.partition], "it was asked for")
        for wanted in (_every(image) if partitions is None else partitions)
        if (topic := image.topics.get(wanted.topic)) is not None
        and wanted.partition in topic.partitions
        and topic.partitions[wanted.partition].leader == NO_LEADER
    ]


def _every(image: MetadataImage) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, index) for topic in image.topics.values() for index in topic.partitions
    ]


def _partition(image: MetadataImage, wanted: TopicPartition) -> tuple[TopicImage, PartitionImage]:
    topic = image.topics.get(wanted.topic)
    partition = topic.partitions.get(wanted.partition) if topic is not None else None
    if topic is None or partition is None:
        raise ApiError(ErrorCode.unknown_topic_or_partition, f"No partition {wanted}.")
    return topic, partition


def _led_by_greatest(image: MetadataImage, before: PartitionImage, ends: Ends) -> tuple[PartitionImage, str]:
    if before.leader != NO_LEADER:
        raise _not_needed()
    told = current(image, before, ends)
    if not told:
        raise ApiError(
            ErrorCode.eligible_leaders_not_available,
            f"None of the replicas {list(before.replicas)} is alive and can tell what it has.",
        )
    after = led_by_greatest(before, told)
    return after, cause_of("it was asked for", told, after.leader)


def _led_by_preferred(before: PartitionImage, brokers: Liveness) -> PartitionImage:
    preferred = before.replicas[0]
    if preferred == before.leader:
        raise _not_needed()
    is_whole = preferred in before.isr and preferred not in before.offline
    if not is_whole or preferred not in brokers.electable:
        raise ApiError(
            ErrorCode.preferred_leader_not_available,
            f"The preferred leader, broker {preferred}, is not alive and in sync.",
        )
    return advanced(before, before._replace(leader=preferred))


def _not_needed() -> ApiError:
    return ApiError(ErrorCode.election_not_needed, "Leader election not needed for topic partition.")
