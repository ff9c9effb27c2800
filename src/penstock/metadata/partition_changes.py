"""Decisions about in-sync sets: what a leader's proposal leads to (AlterPartition).

A proposal is a compare-and-set on the leader epoch and the partition epoch. Whoever joins must be alive and
of the incarnation that the leader saw catch up (KIP-841, KIP-903); whoever stays may be gone, as long as the
minimum needs it. The leader is told the partition as it is then, and changes nothing in its own view before.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.metadata.leadership import Liveness, MinInsync, advanced, change_record, settled
from penstock.types import ApiError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.metadata.image import MetadataImage, PartitionImage
    from penstock.metadata.records import MetadataRecord


@dataclass(frozen=True, slots=True)
class IsrChange:
    topic_id: UUID
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    """(broker id, broker epoch) of each member."""

    @property
    def broker_ids(self) -> tuple[int, ...]:
        return tuple(broker_id for broker_id, _ in self.isr)


@dataclass(frozen=True, slots=True)
class IsrOutcome:
    topic_id: UUID
    partition: int
    error: ApiError | None = None
    state: PartitionImage | None = None
    """The partition as it is now, unless there is an error."""


def alter_partitions(
    image: MetadataImage,
    broker_id: int,
    broker_epoch: int,
    changes: Sequence[IsrChange],
    min_insync: MinInsync,
) -> tuple[list[MetadataRecord], list[IsrOutcome]]:
    """One outcome for each change, in the order asked. A partition that is named twice changes once."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch:
        raise ApiError(
            ErrorCode.stale_broker_epoch, f"Broker {broker_id} is not registered with epoch {broker_epoch}."
        )
    brokers = Liveness.of(image)
    minimum = cache(min_insync)
    decided: dict[tuple[UUID, int], PartitionImage] = {}
    records: list[MetadataRecord] = []
    outcomes = []
    for change in changes:
        key = (change.topic_id, change.partition)
        try:
            name, before = _partition(image, change)
            before = decided.get(key, before)
            after = _changed(image, broker_id, before, change, brokers, minimum(name))
        except ApiError as error:
            outcomes.append(IsrOutcome(*key, error))
            continue
        if after is not before:
            decided[key] = after
            records.append(change_record(*key, before, after, _cause(before, change)))
        outcomes.append(_outcome(broker_id, key, after))
    return records, outcomes


def _partition(image: MetadataImage, change: IsrChange) -> tuple[str, PartitionImage]:
    topic = image.topic_by_id(change.topic_id)
    if topic is None:
        raise ApiError(ErrorCode.unknown_topic_id, f"No topic with id {change.topic_id}.")
    partition = topic.partitions.get(change.partition)
    if partition is None:
        raise ApiError(
            ErrorCode.unknown_topic_or_partition, f"Topic {topic.name} has no partition {change.partition}."
        )
    return topic.name, partition


def _changed(
    image: MetadataImage,
    broker_id: int,
    before: PartitionImage,
    change: IsrChange,
    brokers: Liveness,
    minimum: int,
) -> PartitionImage:
    _check_epochs(broker_id, before, change)
    wanted = set(change.broker_ids)
    if wanted == set(before.isr):
        if change.partition_epoch < before.partition_epoch:
            return before  # a request that came twice
        # The set that is: the leader wants an epoch after which no copy of an earlier proposal counts.
        return before._replace(partition_epoch=before.partition_epoch + 1)
    if change.partition_epoch < before.partition_epoch:
        raise ApiError(
            ErrorCode.invalid_update_version,
            f"The partition epoch is {before.partition_epoch}, not {change.partition_epoch}.",
        )
    _check_members(image, broker_id, before, change)
    if not set(before.isr) <= wanted and len(wanted) < minimum:
        raise ApiError(
            ErrorCode.not_enough_replicas,
            f"In-sync replicas are not given up below min.insync.replicas, which is {minimum}.",
        )
    # Who proposes a set leads: all that is committed is with these, whoever has lost something before.
    proposed = before._replace(isr=tuple(each for each in before.replicas if each in wanted), last_isr=())
    # What comes of it may be more than the proposal: it may complete a reassignment.
    return advanced(before, settled(proposed, brokers, minimum))


def _check_epochs(broker_id: int, before: PartitionImage, change: IsrChange) -> None:
    if change.leader_epoch > before.leader_epoch or change.partition_epoch > before.partition_epoch:
        raise ApiError(ErrorCode.not_controller, "The broker knows of later epochs than this controller.")
    if change.leader_epoch < before.leader_epoch:
        raise ApiError(
            ErrorCode.fenced_leader_epoch,
            f"The leader epoch is {before.leader_epoch}, not {change.leader_epoch}.",
        )
    if before.leader != broker_id:
        raise ApiError(ErrorCode.invalid_request, f"Broker {broker_id} is not the leader.")


def _check_members(image: MetadataImage, broker_id: int, before: PartitionImage, change: IsrChange) -> None:
    members = change.broker_ids
    if len(set(members)) != len(members) or not set(members) <= set(before.replicas):
        raise ApiError(
            ErrorCode.invalid_request,
            f"In-sync replicas {list(members)} are not distinct ones of {list(before.replicas)}.",
        )
    if broker_id not in members:
        raise ApiError(ErrorCode.invalid_request, "The leader itself is not among the in-sync replicas.")
    for member, epoch in change.isr:
        if member in before.isr:
            continue
        broker = image.brokers.get(member)
        is_whole = broker is not None and broker.electable and broker.epoch == epoch
        if not is_whole or member in before.offline:
            raise ApiError(
                ErrorCode.ineligible_replica,
                f"Broker {member} with epoch {epoch} is fenced, stopping, another incarnation, or has its"
                " replica out of service.",
            )


def _cause(before: PartitionImage, change: IsrChange) -> str:
    joined = [each for each in change.broker_ids if each not in before.isr]
    left = [each for each in before.isr if each not in change.broker_ids]
    parts = []
    if joined:
        parts.append(f"{', '.join(map(str, joined))} caught up with the leader")
    if left:
        parts.append(f"{', '.join(map(str, left))} fell behind the leader")
    return "; ".join(parts)


def _outcome(broker_id: int, key: tuple[UUID, int], after: PartitionImage) -> IsrOutcome:
    if after.leader != broker_id:
        error = ApiError(ErrorCode.new_leader_elected, "The reassignment is complete: another broker leads.")
        return IsrOutcome(*key, error)
    return IsrOutcome(*key, state=after)
