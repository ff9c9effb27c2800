"""A leader for a partition that no in-sync replica can lead.

An in-sync set becomes empty when its members lose their disks, or the ends of their logs in a power failure.
Nobody is elected then before it is known what the replicas have:

* If members left with logs that may lack their ends (`last_isr`), all of them are waited for. What was
  committed is in one of their logs, or lost.
* If every replica came back with an empty disk (`wiped`), there is nothing to wait for.
* Else some replica may hold what the lost ones had, or not: somebody has to consent, by a request
  (ElectLeaders, unclean) or by unclean.leader.election.enable of the topic.

Then the greatest log among the live replicas leads, by last epoch and end offset. Its end is where messages
that were acknowledged may be missing, and the cluster log says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from penstock.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from penstock.metadata.leadership import Liveness, advanced, change_record
from penstock.types import TopicPartition

if TYPE_CHECKING:
    from penstock.metadata.records import MetadataRecord
    from penstock.replication.divergence import LogEnd


class ReplicaEnd(NamedTuple):
    """What a replica has, told by this incarnation of its broker in an epoch in which nobody leads."""

    broker_epoch: int
    leader_epoch: int
    log_end: LogEnd


Ends = Mapping[int, ReplicaEnd]
"""By broker."""


class Leaderless(NamedTuple):
    where: TopicPartition
    topic_id: UUID
    image: PartitionImage
    reason: str
    """Why it may be led by whoever has most."""


def leaderless(
    image: MetadataImage, has_consent: Callable[[TopicPartition], bool] = lambda _: False
) -> list[Leaderless]:
    """The partitions for which it is time to compare logs."""
    found = []
    electable = Liveness.of(image).electable
    for topic in image.topics.values():
        for index, partition in topic.partitions.items():
            if partition.leader == NO_LEADER:
                where = TopicPartition(topic.name, index)
                reason = _maybe_reason(partition, electable)
                if reason is None and has_consent(where):
                    reason = "unclean.leader.election.enable is set"
                if reason is not None:
                    found.append(Leaderless(where, topic.topic_id, partition, reason))
    return found


def _maybe_reason(partition: PartitionImage, electable: frozenset[int]) -> str | None:
    if partition.isr:
        return None  # whoever of them comes back has everything
    if partition.last_isr:
        names = ", ".join(map(str, partition.last_isr))
        is_complete = electable.issuperset(partition.last_isr)
        return f"the logs of {names} may lack their ends" if is_complete else None
    is_lost = set(partition.replicas) <= set(partition.wiped)
    return "every replica has lost its disk" if is_lost else None


def replicas_to_ask(image: MetadataImage, waiting: Iterable[Leaderless]) -> dict[int, list[Leaderless]]:
    """By broker, the partitions of which it has a replica that can lead."""
    electable = Liveness.of(image).electable
    asked: dict[int, list[Leaderless]] = {}
    for each in waiting:
        for broker_id in each.image.replicas:
            if broker_id in electable:
                asked.setdefault(broker_id, []).append(each)
    return asked


def recover(
    image: MetadataImage, waiting: Iterable[Leaderless], ends: Mapping[TopicPartition, Ends]
) -> list[MetadataRecord]:
    """Elections where all live replicas have told their ends, and nothing has changed since."""
    electable = Liveness.of(image).electable
    records: list[MetadataRecord] = []
    for each in waiting:
        topic = image.topic_by_id(each.topic_id)
        if topic is None or topic.partitions.get(each.where.partition) != each.image:
            continue
        told = current(image, each.image, ends.get(each.where, {}))
        if not told or not told.keys() >= electable.intersection(each.image.replicas):
            continue
        after = led_by_greatest(each.image, told)
        cause = cause_of(each.reason, told, after.leader)
        records.append(change_record(each.topic_id, each.where.partition, each.image, after, cause))
    return records


def current(image: MetadataImage, partition: PartitionImage, ends: Ends) -> dict[int, LogEnd]:
    """Of what brokers told, that which is still so, by processes that can lead."""
    return {
        broker.id: ends[broker.id].log_end
        for broker in image.electable_brokers()
        if broker.id in partition.replicas
        and broker.id in ends
        and ends[broker.id][:2] == (broker.epoch, partition.leader_epoch)
    }


def led_by_greatest(before: PartitionImage, ends: Mapping[int, LogEnd]) -> PartitionImage:
    """Of equal logs the first in the order of replicas."""
    leader = max((each for each in before.replicas if each in ends), key=lambda each: ends[each])
    wiped = tuple(each for each in before.wiped if each != leader)
    return advanced(before, before._replace(leader=leader, isr=(leader,), last_isr=(), wiped=wiped))


def cause_of(reason: str, ends: Mapping[int, LogEnd], leader: int) -> str:
    told = ", ".join(
        f"{broker_id} ends at {end.end_offset} in epoch {end.last_epoch}"
        for broker_id, end in sorted(ends.items())
    )
    return (
        f"not a clean election: {reason}; {told}."
        f" What was acknowledged from offset {ends[leader].end_offset} on may be lost"
    )
