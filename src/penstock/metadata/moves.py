"""A move of the balancer, with its reason, and the records that carry it out. Pure.

A move speaks of a partition in one partition epoch. When that is over, somebody else has changed it, and the
move is void. Each is checked once more when it is carried out, as brokers may have gone meanwhile.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from penstock.metadata.leadership import Liveness, advanced, change_record
from penstock.metadata.reassignments import Reassignment, reassigned

if TYPE_CHECKING:
    from penstock.metadata.image import MetadataImage, PartitionImage
    from penstock.metadata.leadership import MinInsync
    from penstock.metadata.records import MetadataRecord


class Rule(StrEnum):
    REPLENISH = "replenish"
    SPREAD = "spread"
    CONSOLIDATE = "consolidate"
    EVEN = "even"


class Place(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Move(NamedTuple):
    """One change of one partition as it is in `partition_epoch`; one of the last four fields says which."""

    rule: Rule
    place: Place
    partition_epoch: int
    reason: str
    leader: int | None = None
    borrow: int | None = None
    give_back: int | None = None
    replicas: tuple[int, ...] | None = None

    @property
    def text(self) -> str:
        """What it does."""
        if self.leader is not None:
            return f"{self.place} is to be led by {self.leader}"
        if self.borrow is not None:
            return f"{self.place} borrows broker {self.borrow}"
        if self.give_back is not None:
            return f"{self.place} gives broker {self.give_back} back"
        return f"{self.place} moves to replicas {list(self.replicas or ())}"


def records_of(image: MetadataImage, move: Move, min_insync: MinInsync) -> list[MetadataRecord]:
    """What carries a move out; nothing if the partition is not as it was, or may not be changed like that."""
    topic = image.topics.get(move.place.topic)
    before = topic.partitions.get(move.place.partition) if topic is not None else None
    if topic is None or before is None or before.partition_epoch != move.partition_epoch:
        return []
    cause = f"{move.rule}: {move.reason}"
    brokers = Liveness.of(image)
    if move.replicas is not None:
        request = Reassignment(*move.place, move.replicas)
        return reassigned(image, request, min_insync, cause)
    if move.leader is not None:
        after = before._replace(leader=move.leader)
        is_whole = move.leader in before.isr and move.leader not in before.offline
        is_able = is_whole and move.leader in brokers.electable
    elif move.borrow is not None:
        after = before._replace(
            replicas=(*before.replicas, move.borrow), borrowed=(*before.borrowed, move.borrow)
        )
        is_able = move.borrow in brokers.electable and move.borrow not in before.replicas
    else:
        after = _without(before, move.give_back)
        alive = [each for each in after.isr if each in brokers.electable]
        is_able = before.leader in alive and len(alive) >= min_insync(topic.name)
    if not is_able or after == before:
        return []
    after = advanced(before, after)
    return [change_record(topic.topic_id, move.place.partition, before, after, cause)]


def _without(partition: PartitionImage, broker_id: int | None) -> PartitionImage:
    def rest(ids: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(each for each in ids if each != broker_id)

    return partition._replace(
        replicas=rest(partition.replicas), isr=rest(partition.isr), borrowed=rest(partition.borrowed),
        last_isr=rest(partition.last_isr), wiped=rest(partition.wiped), offline=rest(partition.offline),
    )  # fmt: skip
