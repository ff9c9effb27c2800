"""Decisions about moving partitions to other brokers (KIP-455).

A partition on its way has both the replicas that it shall have and those that it had; `adding` and `removing`
say which are which. When the whole target is in sync, those on their way out go, in the batch that lets the
last one in: see `leadership`. Until then the move can be given another target or be cancelled, which drops
the replicas that it was adding, unless the in-sync set cannot do without them any more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from penstock.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from penstock.metadata.leadership import (
    Liveness,
    MinInsync,
    advanced,
    change_record,
    replicas_of,
    settled,
)
from penstock.types import ApiError, ErrorCode, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.metadata.records import MetadataRecord


@dataclass(frozen=True, slots=True)
class Reassignment:
    topic: str
    partition: int
    replicas: tuple[int, ...] | None
    """The target, preferred leader first; None cancels the move under way."""
    borrowed: tuple[int, ...] = ()
    """Those of the target that stay borrowed: what an administrator names is there to stay."""


@dataclass(frozen=True, slots=True)
class ReassignmentOutcome:
    topic: str
    partition: int
    error: ApiError | None = None


def alter_reassignments(
    image: MetadataImage, requests: Sequence[Reassignment], min_insync: MinInsync
) -> tuple[list[MetadataRecord], list[ReassignmentOutcome]]:
    """One outcome for each partition, in the order asked; one that is named twice is refused."""
    asked = Counter((request.topic, request.partition) for request in requests)
    minimum = cache(min_insync)
    records: list[MetadataRecord] = []
    outcomes = []
    for key, request in {(each.topic, each.partition): each for each in requests}.items():
        try:
            if asked[key] > 1:
                raise ApiError(ErrorCode.invalid_request, "Each partition must appear at most once.")
            records += reassigned(image, request, minimum)
        except ApiError as error:
            outcomes.append(ReassignmentOutcome(*key, error))
            continue
        outcomes.append(ReassignmentOutcome(*key))
    return records, outcomes


def reassigned(
    image: MetadataImage, request: Reassignment, min_insync: MinInsync, cause: str | None = None
) -> list[MetadataRecord]:
    """What begins the move of one partition, or cancels it; nothing if there is nothing to do."""
    topic = image.topics.get(request.topic)
    before = topic.partitions.get(request.partition) if topic is not None else None
    if topic is None or before is None:
        raise ApiError(
            ErrorCode.unknown_topic_or_partition, f"No partition {request.topic}-{request.partition}."
        )
    if request.replicas is None:
        if not before.adding and not before.removing:
            raise ApiError(ErrorCode.no_reassignment_in_progress)
        target, cause = before.original, cause or "the reassignment was cancelled"
        after = _moved(before, target, Liveness.of(image), min_insync(topic.name), borrowed=before.borrowed)
    else:
        target, cause = request.replicas, cause or "a reassignment was asked for"
        _check_target(image, target)
        after = _moved(before, target, Liveness.of(image), min_insync(topic.name), borrowed=request.borrowed)
    if after is before:
        return []
    return [change_record(topic.topic_id, request.partition, before, after, cause)]


def _check_target(image: MetadataImage, target: tuple[int, ...]) -> None:
    if not target:
        raise ApiError(ErrorCode.invalid_replica_assignment, "The target has an empty replica list.")
    if len(set(target)) != len(target):
        raise ApiError(ErrorCode.invalid_replica_assignment, "The target has a broker more than once.")
    for broker_id in target:
        if broker_id not in image.brokers:
            raise ApiError(
                ErrorCode.invalid_replica_assignment,
                f"The target has broker {broker_id}, but no such broker is registered.",
            )


def _moved(
    before: PartitionImage,
    target: tuple[int, ...],
    brokers: Liveness,
    minimum: int,
    *,
    borrowed: tuple[int, ...],
) -> PartitionImage:
    original = before.original
    removing = tuple(each for each in original if each not in target)
    replicas = target + removing
    isr = tuple(each for each in before.isr if each in replicas)
    if len(isr) < len(before.isr) and len(isr) < max(1, minimum):
        raise ApiError(
            ErrorCode.invalid_replica_assignment,
            f"Too few of the original replicas {list(original)} are in sync to do without those that are"
            f" being added; in sync are {list(before.isr)}.",
        )
    moving = before._replace(
        replicas=replicas,
        isr=isr,
        adding=tuple(each for each in target if each not in original),
        removing=removing,
        borrowed=borrowed,
    )
    after = advanced(before, settled(moving, brokers, minimum))
    if after.leader == NO_LEADER != before.leader:
        raise ApiError(
            ErrorCode.invalid_replica_assignment,
            f"None of the replicas {list(replicas)} could lead; in sync are {list(before.isr)}.",
        )
    return after


@dataclass(frozen=True, slots=True)
class OngoingReassignment:
    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def list_reassignments(
    image: MetadataImage, partitions: Sequence[TopicPartition] | None
) -> list[OngoingReassignment]:
    """What is under way, of these partitions or of all."""
    wanted = None if partitions is None else set(partitions)
    return [
        OngoingReassignment(topic.name, index, each.replicas, each.adding, each.removing)
        for topic in image.topics.values()
        for index, each in topic.partitions.items()
        if (each.adding or each.removing) and (wanted is None or (topic.name, index) in wanted)
    ]


def decommission(
    image: MetadataImage, broker_id: int, min_insync: MinInsync
) -> tuple[list[MetadataRecord], list[TopicPartition]]:
    """Move all that a broker holds onto the others; returns what moves. All of it or, with an error, nothing.

    Each new replica takes the place of the one that it replaces, so that leadership stays as spread as it is,
    and is in a rack that has least of the partition.
    When nothing of it is left (`list_reassignments`, `replicas_of`), the broker can be unregistered.
    """
    if broker_id not in image.brokers:
        raise ApiError(ErrorCode.broker_id_not_registered, f"No broker {broker_id} is registered.")
    load = {broker.id: 0 for broker in image.electable_brokers() if broker.id != broker_id}
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            for replica in partition.target:
                if replica in load:
                    load[replica] += 1
    minimum = cache(min_insync)
    records: list[MetadataRecord] = []
    moved = []
    for topic, index, partition in replicas_of(image, broker_id):
        target = partition.target
        if broker_id not in target:
            continue  # on its way out already
        candidates = [each for each in load if each not in target]
        if not candidates:
            raise ApiError(
                ErrorCode.invalid_replication_factor,
                f"Broker {broker_id} cannot be decommissioned: {topic.name}-{index} has {len(target)}"
                f" replica(s), and only {len(load)} other broker(s) are alive.",
            )
        racks = Counter(_rack_of(image, each) for each in target if each != broker_id)
        loads = [(racks[_rack_of(image, each)], load[each], each) for each in candidates]
        _, _, substitute = min(loads)
        load[substitute] += 1
        replicas, borrowed = (
            tuple(substitute if each == broker_id else each for each in ids)
            for ids in (target, partition.borrowed)
        )
        request = Reassignment(topic.name, index, replicas, borrowed)
        records += reassigned(image, request, minimum, f"broker {broker_id} is decommissioned")
        moved.append(TopicPartition(topic.name, index))
    return records, moved


def _rack_of(image: MetadataImage, broker_id: int) -> str | None:
    broker = image.brokers.get(broker_id)
    return None if broker is None else broker.rack
