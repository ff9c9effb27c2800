"""Who leads a partition and who is in sync, given which brokers are alive.

Each member of an in-sync set holds all that was ever committed, so a leader is elected from it and from
nowhere else, in the order of the replicas. A member that is gone leaves the set, for what is written from
then on must not wait for it, but never so that fewer than min.insync.replicas remain: these are the copies
that an acknowledgement promised, and whoever of them comes back first may lead. Writes are refused meanwhile.
A set that nobody can lead does not shrink at all, which would only make it harder to find a leader.

There is one exception. A member that lost its data, or may have, is no copy: it leaves whatever the minimum
says, also as the last one. A partition whose set is empty has no leader. Those who left because the ends of
their logs may be missing are remembered until a leader has proved to be one, by a change of the set that it
asked for: the committed records are with them or nowhere. How such a partition gets a leader again is in
recovery.py.

A replica that is out of service on a broker that is alive is no candidate, and leaves the set as one that is
gone; if it has to be filled anew, as one that lost its data, as long as another is left. If nobody else can
lead, a leader stays: it serves what it has, or says what is wrong with it.

Any change begins a partition epoch, and a change of the leader a leader epoch. So does the end of a replica:
it deletes its log, and should it come back, nothing is true any more of what the leader knew of it, nor of
what a fetch says that it sent before. The same goes for a follower that is out of service, for it may come
back with an empty log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import cache
from typing import NamedTuple
from uuid import UUID, uuid5

from penstock.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from penstock.metadata.records import PartitionChangeRecord

MinInsync = Callable[[str], int]
"""min.insync.replicas in force for the topic of this name."""


class Liveness(NamedTuple):
    serving: frozenset[int]
    """Brokers that are not fenced: these may go on with what they lead."""
    electable: frozenset[int]
    """Those of them that are not stopping either."""

    @classmethod
    def of(cls, image: MetadataImage) -> Liveness:
        return cls(
            frozenset(broker.id for broker in image.brokers.values() if not broker.fenced),
            frozenset(broker.id for broker in image.brokers.values() if broker.electable),
        )

    def with_electable(self, broker_id: int) -> Liveness:
        return Liveness(self.serving | {broker_id}, self.electable | {broker_id})

    def with_stopping(self, broker_id: int) -> Liveness:
        return Liveness(self.serving, self.electable - {broker_id})

    def without(self, broker_id: int) -> Liveness:
        return Liveness(self.serving - {broker_id}, self.electable - {broker_id})


class Loss(NamedTuple):
    broker_id: int
    is_wiped: bool
    """Its disk is empty; else the end of its log may be missing."""


def settled(
    before: PartitionImage,
    brokers: Liveness,
    minimum: int,
    *,
    loss: Loss | None = None,
    offline: tuple[int, ...] | None = None,
) -> PartitionImage:
    """The partition as it should be with these brokers; `offline` unless that is as before."""
    after = before if loss is None else _without_lost(before, loss)
    after = after if offline is None else after._replace(offline=offline)
    for each in after.offline:
        brokers = brokers.with_stopping(each)
    after = _maybe_reassigned(after, brokers)
    leader = _elected(after, brokers)
    if leader != NO_LEADER:
        after = after._replace(isr=_shrunk(after, leader, brokers, minimum))
    after = after._replace(
        leader=leader,
        last_isr=tuple(each for each in after.last_isr if each in after.replicas),
        wiped=tuple(each for each in after.wiped if each in after.replicas and each not in after.isr),
        offline=tuple(each for each in after.offline if each in after.replicas),
        borrowed=tuple(each for each in after.borrowed if each in after.replicas),
    )
    return advanced(before, after)


def _without_lost(partition: PartitionImage, loss: Loss) -> PartitionImage:
    lost = loss.broker_id
    isr = tuple(each for each in partition.isr if each != lost)
    last_isr, wiped = partition.last_isr, partition.wiped
    if loss.is_wiped:
        last_isr = tuple(each for each in last_isr if each != lost)
        wiped = tuple(dict.fromkeys((*wiped, lost)))
    elif lost in partition.isr:
        last_isr = tuple(dict.fromkeys((*last_isr, lost)))
    return partition._replace(isr=isr, last_isr=last_isr, wiped=wiped)


def _maybe_reassigned(partition: PartitionImage, brokers: Liveness) -> PartitionImage:
    """A reassignment is complete when its whole target is in sync and alive."""
    target = partition.target
    if not (partition.adding or partition.removing) or not brokers.electable.issuperset(target):
        return partition
    if not set(target) <= set(partition.isr):
        return partition
    return partition._replace(replicas=target, isr=target, adding=(), removing=())


def _elected(partition: PartitionImage, brokers: Liveness) -> int:
    candidates = [each for each in partition.replicas if each in partition.isr and each in brokers.electable]
    leader = partition.leader
    if leader in candidates:
        return leader
    if candidates:
        return candidates[0]
    return leader if leader in partition.isr and leader in brokers.serving else NO_LEADER


def _shrunk(partition: PartitionImage, leader: int, brokers: Liveness, minimum: int) -> tuple[int, ...]:
    gone = [each for each in partition.isr if each not in brokers.electable and each != leader]
    leaving = gone[: max(0, len(partition.isr) - max(1, minimum))]
    return tuple(each for each in partition.isr if each not in leaving)


def advanced(before: PartitionImage, after: PartitionImage) -> PartitionImage:
    """`after` under the epochs that it needs; `before` itself if nothing changed."""
    if after == before:
        return before
    begins_epoch = (
        after.leader != before.leader
        or not set(before.replicas) <= set(after.replicas)
        or not set(after.offline) <= {*before.offline, after.leader}
    )
    leader_epoch = before.leader_epoch + begins_epoch
    return after._replace(leader_epoch=leader_epoch, partition_epoch=before.partition_epoch + 1)


def change_record(
    topic_id: UUID, partition: int, before: PartitionImage, after: PartitionImage, cause: str | None
) -> PartitionChangeRecord:
    return PartitionChangeRecord(
        topic_id,
        partition,
        after.partition_epoch,
        leader=None if after.leader == before.leader else after.leader,
        leader_epoch=None if after.leader_epoch == before.leader_epoch else after.leader_epoch,
        isr=None if after.isr == before.isr else after.isr,
        replicas=None if after.replicas == before.replicas else after.replicas,
        adding=None if after.adding == before.adding else after.adding,
        removing=None if after.removing == before.removing else after.removing,
        cause=cause,
        last_isr=None if after.last_isr == before.last_isr else after.last_isr,
        wiped=None if after.wiped == before.wiped else after.wiped,
        offline=None if after.offline == before.offline else after.offline,
        borrowed=None if after.borrowed == before.borrowed else after.borrowed,
    )


def replicas_of(image: MetadataImage, broker_id: int) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
    """The partitions that a broker holds a replica of."""
    for topic in image.topics.values():
        for index, partition in topic.partitions.items():
            if broker_id in partition.replicas:
                yield topic, index, partition


def replica_id(topic_id: UUID, partition: int) -> UUID:
    """Stands for a broker's replica where Kafka has the id of a log directory."""
    return uuid5(topic_id, str(partition))


def damage_id(topic_id: UUID, partition: int) -> UUID:
    """Told beside the `replica_id` of a replica that others have to fill anew: it is no copy any more."""
    return uuid5(topic_id, f"{partition} is damaged")


def settle_replicas_of(
    image: MetadataImage,
    broker_id: int,
    brokers: Liveness,
    min_insync: MinInsync,
    cause: str,
    *,
    loss_in: Callable[[str], Loss | None] = lambda _topic: None,
    offline: Collection[UUID] | None = None,
) -> list[PartitionChangeRecord]:
    """What a change in the life of one broker means for the partitions that it holds.

    `offline` are all that are out of service there, by `replica_id` and `damage_id`, unless these are as
    before.
    """
    minimum = cache(min_insync)
    records = []
    for topic, index, before in replicas_of(image, broker_id):
        now_offline, loss = before.offline, loss_in(topic.name)
        if offline is not None:
            is_offline = bool(offline) and replica_id(topic.topic_id, index) in offline
            others = tuple(each for each in before.offline if each != broker_id)
            now_offline = (*others, broker_id) if is_offline else others
            if is_offline and damage_id(topic.topic_id, index) in offline and set(before.isr) > {broker_id}:
                loss = Loss(broker_id, is_wiped=False)
        after = settled(before, brokers, minimum(topic.name), loss=loss, offline=now_offline)
        if after is not before:
            records.append(change_record(topic.topic_id, index, before, after, cause))
    return records
