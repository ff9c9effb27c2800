"""The replicas of new partitions: placed by default, or named by the caller and checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.metadata.placement import in_turn, place
from penstock.types import ApiError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.metadata.image import BrokerImage, TopicImage

USE_DEFAULT = -1
PARTITIONS_PER_REQUEST_MAX = 10_000
"""New partitions in one request, over all its topics."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    name: str
    partitions: int = USE_DEFAULT
    replication_factor: int = USE_DEFAULT
    assignments: Sequence[tuple[int, tuple[int, ...]]] = ()
    """(partition, replicas), if the caller places them itself."""
    configs: Sequence[tuple[str, str | None]] = ()


@dataclass(frozen=True, slots=True)
class NewPartitions:
    topic: str
    count: int
    """Partitions in total, not in addition."""
    assignments: Sequence[tuple[int, ...]] | None = None
    """Replicas of each additional partition, if the caller places them itself."""


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    partitions: int = 1
    replication_factor_max: int = 3


def replicas_of_new(
    topic: NewTopic, brokers: Sequence[BrokerImage], defaults: TopicDefaults, *, start: int, budget: int
) -> list[tuple[int, ...]]:
    if topic.assignments:
        return _assigned(topic, brokers, budget)
    partitions = defaults.partitions if topic.partitions == USE_DEFAULT else topic.partitions
    if partitions <= 0:
        raise ApiError(
            ErrorCode.invalid_partitions, "Number of partitions was set to an invalid non-positive value."
        )
    _check_budget(partitions, budget)
    replication_factor = topic.replication_factor
    if replication_factor == USE_DEFAULT:
        replication_factor = max(1, min(defaults.replication_factor_max, len(brokers)))
    _check_replication_factor(replication_factor, brokers)
    return place(brokers, partitions=partitions, replication_factor=replication_factor, start=start)


def _check_budget(partitions: int, budget: int) -> None:
    if partitions > budget:
        raise ApiError(
            ErrorCode.policy_violation,
            "Excessively large number of partitions per request:"
            f" at most {PARTITIONS_PER_REQUEST_MAX} are created at once.",
        )


def _check_replication_factor(replication_factor: int, brokers: Sequence[BrokerImage]) -> None:
    if replication_factor <= 0:
        raise ApiError(
            ErrorCode.invalid_replication_factor,
            "Replication factor was set to an invalid non-positive value.",
        )
    if replication_factor > len(brokers):
        raise ApiError(
            ErrorCode.invalid_replication_factor,
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor"
            f" of {replication_factor} cannot be reached because only {len(brokers)} broker(s) are"
            " registered.",
        )


def _assigned(topic: NewTopic, brokers: Sequence[BrokerImage], budget: int) -> list[tuple[int, ...]]:
    if topic.replication_factor != USE_DEFAULT:
        raise ApiError(
            ErrorCode.invalid_request,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        )
    if topic.partitions != USE_DEFAULT:
        raise ApiError(
            ErrorCode.invalid_request,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    _check_budget(len(topic.assignments), budget)
    by_partition = dict(topic.assignments)
    if by_partition.keys() != set(range(len(topic.assignments))):
        raise ApiError(
            ErrorCode.invalid_replica_assignment,
            "partitions should be a consecutive 0-based integer sequence",
        )
    replicas = [by_partition[partition] for partition in range(len(by_partition))]
    check_assignment(replicas, brokers, len(replicas[0]))
    return replicas


def check_assignment(
    assignments: Sequence[tuple[int, ...]], brokers: Sequence[BrokerImage], replication_factor: int
) -> None:
    known = {broker.id for broker in brokers}
    for replicas in assignments:
        if not replicas:
            raise ApiError(
                ErrorCode.invalid_replica_assignment,
                "The manual partition assignment includes an empty replica list.",
            )
        for replica in replicas:
            if replica not in known:
                raise ApiError(
                    ErrorCode.invalid_replica_assignment,
                    f"The manual partition assignment includes broker {replica},"
                    " but no such broker is registered.",
                )
        if len(set(replicas)) != len(replicas):
            raise ApiError(
                ErrorCode.invalid_replica_assignment,
                "The manual partition assignment includes a broker more than once.",
            )
        if len(replicas) != replication_factor:
            raise ApiError(
                ErrorCode.invalid_replica_assignment,
                "The manual partition assignment includes a partition with"
                f" {len(replicas)} replica(s), but this is not consistent with previous partitions,"
                f" which have {replication_factor} replica(s).",
            )


def replicas_of_added(
    request: NewPartitions, topic: TopicImage, brokers: Sequence[BrokerImage], *, budget: int
) -> list[tuple[int, ...]]:
    current = len(topic.partitions)
    added = request.count - current
    _check_budget(added, budget)
    if request.assignments is None:
        _check_replication_factor(topic.replication_factor, brokers)
        first_leader = topic.partitions[0].replicas[0]
        ids = [broker.id for broker in in_turn(brokers)]
        start = current + (ids.index(first_leader) if first_leader in ids else 0)
        return place(brokers, partitions=added, replication_factor=topic.replication_factor, start=start)
    if len(request.assignments) != added:
        raise ApiError(
            ErrorCode.invalid_replica_assignment,
            f"Attempted to add {added} additional partition(s),"
            f" but {len(request.assignments)} assignment(s) were specified.",
        )
    check_assignment(request.assignments, brokers, topic.replication_factor)
    return list(request.assignments)
