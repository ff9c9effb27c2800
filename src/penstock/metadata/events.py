"""The cluster log: what committed batches mean, for people to read.

Each batch tells the same story on every node that reads the metadata log, so nobody keeps a second one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from uuid import UUID

from penstock.metadata.image import NO_LEADER, MetadataImage, PartitionImage, changed, created
from penstock.metadata.records import (
    ClusterRecord,
    FenceBrokerRecord,
    LeaderChangeRecord,
    MetadataRecord,
    NewLeaderEpochsRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    ShutdownBrokerRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    VotersRecord,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


class EventKind(StrEnum):
    CLUSTER_CREATED = "cluster_created"
    CONTROLLER_ELECTED = "controller_elected"
    VOTERS_CHANGED = "voters_changed"
    BROKER_REGISTERED = "broker_registered"
    BROKER_UNREGISTERED = "broker_unregistered"
    BROKER_FENCED = "broker_fenced"
    BROKER_UNFENCED = "broker_unfenced"
    BROKER_STOPPING = "broker_stopping"
    TOPIC_CREATED = "topic_created"
    TOPIC_DELETED = "topic_deleted"
    PARTITIONS_ADDED = "partitions_added"
    LEADER_ELECTED = "leader_elected"
    LEADER_LOST = "leader_lost"
    LEADER_EPOCHS_BEGUN = "leader_epochs_begun"
    ISR_EXPANDED = "isr_expanded"
    ISR_SHRUNK = "isr_shrunk"
    REPLICA_OFFLINE = "replica_offline"
    REPLICA_ONLINE = "replica_online"
    REPLICA_BORROWED = "replica_borrowed"
    REPLICA_GIVEN_BACK = "replica_given_back"
    REASSIGNMENT_STARTED = "reassignment_started"
    REASSIGNMENT_ENDED = "reassignment_ended"


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    kind: EventKind
    text: str
    cause: str | None = None
    epoch: int | None = None
    """Of the quorum for a controller, of the broker for a broker, of the leader for a partition."""
    topic: str | None = None
    partition: int | None = None
    nodes: tuple[int, ...] = ()
    """Who took part; of an election the new leader, then the old one."""

    def as_json(self) -> dict[str, Any]:
        """Without what does not apply."""
        content: dict[str, Any] = {"kind": self.kind.value, "text": self.text}
        optional = {
            "cause": self.cause, "epoch": self.epoch, "topic": self.topic, "partition": self.partition,
        }  # fmt: skip
        content.update((name, value) for name, value in optional.items() if value is not None)
        return content | {"nodes": list(self.nodes)}


def events_of(
    before: MetadataImage, records: Sequence[MetadataRecord], *, quorum_epoch: int | None = None
) -> list[ClusterEvent]:
    """What one batch, applied to `before`, means. `quorum_epoch` is the epoch that it was written in."""
    story = _Story(before, records, quorum_epoch)
    events: list[ClusterEvent] = []
    for record in records:
        tell = _TELL.get(type(record))
        if tell is not None:
            events.extend(tell(story, record))
    return events


class _Story:
    def __init__(
        self, before: MetadataImage, records: Sequence[MetadataRecord], quorum_epoch: int | None
    ) -> None:
        self._before = before
        self._quorum_epoch = quorum_epoch
        self._created = {record.topic_id: record.name for record in records if type(record) is TopicRecord}
        self._added = Counter(record.topic_id for record in records if type(record) is PartitionRecord)
        # As the batch has changed them so far.
        self._partitions: dict[tuple[UUID, int], PartitionImage] = {}

    def cluster(self, record: ClusterRecord) -> Iterator[ClusterEvent]:
        yield ClusterEvent(EventKind.CLUSTER_CREATED, f"cluster {record.cluster_id} begins")

    def controller(self, record: LeaderChangeRecord) -> Iterator[ClusterEvent]:
        yield ClusterEvent(
            EventKind.CONTROLLER_ELECTED, f"node {record.leader_id} is the active controller",
            epoch=self._quorum_epoch, nodes=(record.leader_id,),
        )  # fmt: skip

    def voters(self, record: VotersRecord) -> Iterator[ClusterEvent]:
        yield ClusterEvent(
            EventKind.VOTERS_CHANGED, f"controllers that vote: {_ids(record.node_ids)}",
            epoch=self._quorum_epoch, nodes=record.node_ids,
        )  # fmt: skip

    def registered(self, record: RegisterBrokerRecord) -> Iterator[ClusterEvent]:
        yield ClusterEvent(
            EventKind.BROKER_REGISTERED,
            f"broker {record.broker_id} registered at {record.host}:{record.port}",
            record.cause, record.broker_epoch, nodes=(record.broker_id,),
        )  # fmt: skip

    def fenced(self, record: FenceBrokerRecord) -> Iterator[ClusterEvent]:
        yield ClusterEvent(
            EventKind.BROKER_FENCED, f"broker {record.broker_id} is fenced",
            record.cause, record.broker_epoch, nodes=(record.broker_id,),
        )  # fmt: skip

    def unfenced(self, record: UnfenceBrokerRecord) -> Iterator[ClusterEvent]:
        yield ClusterEvent(
            EventKind.BROKER_UNFENCED, f"broker {record.broker_id} is in service",
            record.cause, record.broker_epoch, nodes=(record.broker_id,),
        )  # fmt: skip

    def stopping(self, record: ShutdownBrokerRecord) -> Iterator[ClusterEvent]:
        yield ClusterEvent(
            EventKind.BROKER_STOPPING, f"broker {record.broker_id} is stopping",
            epoch=record.broker_epoch, nodes=(record.broker_id,),
        )  # fmt: skip

    def unregistered(self, record: UnregisterBrokerRecord) -> Iterator[ClusterEvent]:
        yield ClusterEvent(
            EventKind.BROKER_UNREGISTERED, f"broker {record.broker_id} is no longer part of the cluster",
            epoch=record.broker_epoch, nodes=(record.broker_id,),
        )  # fmt: skip

    def topic_created(self, record: TopicRecord) -> Iterator[ClusterEvent]:
        text = f"topic {record.name} created with {self._added[record.topic_id]} partition(s)"
        yield ClusterEvent(EventKind.TOPIC_CREATED, text, topic=record.name)

    def topic_deleted(self, record: RemoveTopicRecord) -> Iterator[ClusterEvent]:
        name = self._name(record.topic_id)
        yield ClusterEvent(EventKind.TOPIC_DELETED, f"topic {name} deleted", topic=name)

    def partition_added(self, record: PartitionRecord) -> Iterator[ClusterEvent]:
        self._partitions[record.topic_id, record.partition] = created(record)
        if record.topic_id in self._created or not self._added[record.topic_id]:
            return
        name, count = self._name(record.topic_id), self._added.pop(record.topic_id)  # told once
        yield ClusterEvent(
            EventKind.PARTITIONS_ADDED,
            f"{count} partition(s) added to topic {name}",
            record.cause,
            topic=name,
        )

    def partition_changed(self, record: PartitionChangeRecord) -> Iterator[ClusterEvent]:
        key = (record.topic_id, record.partition)
        name = self._name(record.topic_id)
        old = self._partitions.get(key) or self._before.topics[name].partitions[record.partition]
        new = changed(old, record)
        self._partitions[key] = new
        for kind, text, nodes in _differences(f"{name}-{record.partition}", old, new):
            yield ClusterEvent(
                kind, text, record.cause, new.leader_epoch, name, record.partition, nodes
            )  # fmt: skip

    def epochs_begun(self, record: NewLeaderEpochsRecord) -> Iterator[ClusterEvent]:
        text = f"broker {record.leader} goes on with what it leads, under new leader epochs"
        yield ClusterEvent(EventKind.LEADER_EPOCHS_BEGUN, text, nodes=(record.leader,))

    def _name(self, topic_id: UUID) -> str:
        return self._created.get(topic_id) or self._before.topic_names[topic_id]


def _differences(
    partition: str, old: PartitionImage, new: PartitionImage
) -> Iterator[tuple[EventKind, str, tuple[int, ...]]]:
    if new.leader != old.leader:
        nodes = tuple(each for each in (new.leader, old.leader) if each != NO_LEADER)
        if new.leader == NO_LEADER:
            is_left = "alive" if new.isr else "left"
            text = f"{partition} has no leader: no in-sync replica is {is_left} (was {old.leader})"
            yield EventKind.LEADER_LOST, f"{text}, epoch {new.leader_epoch}", nodes
        else:
            was = "none" if old.leader == NO_LEADER else str(old.leader)
            text = f"{partition} is led by {new.leader} (was {was}), epoch {new.leader_epoch}"
            yield EventKind.LEADER_ELECTED, text, nodes
    joined = tuple(each for each in new.isr if each not in old.isr)
    left = tuple(each for each in old.isr if each not in new.isr)
    sets = f"{partition} in sync: {_ids(old.isr)} → {_ids(new.isr)}"
    if joined:
        yield EventKind.ISR_EXPANDED, sets, joined
    if left:
        yield EventKind.ISR_SHRUNK, sets, left
    for kind, some, others in (
        (EventKind.REPLICA_OFFLINE, new, old),
        (EventKind.REPLICA_ONLINE, old, new),
    ):
        if moved := tuple(each for each in some.offline if each not in others.offline):
            yield kind, f"{partition} out of service: {_ids(old.offline)} → {_ids(new.offline)}", moved
    if borrowed := tuple(each for each in new.borrowed if each not in old.borrowed):
        text = f"{partition} borrows {_ids(borrowed)}, and is on replicas {_ids(new.replicas)}"
        yield EventKind.REPLICA_BORROWED, text, borrowed
    if returned := tuple(each for each in old.borrowed if each not in new.replicas):
        text = f"{partition} gives {_ids(returned)} back, and is on replicas {_ids(new.replicas)}"
        yield EventKind.REPLICA_GIVEN_BACK, text, returned
    if (new.adding, new.removing) != (old.adding, old.removing):
        if new.adding or new.removing:
            text = f"{partition} moves from replicas {_ids(new.original)} to {_ids(new.target)}"
            yield EventKind.REASSIGNMENT_STARTED, text, new.adding + new.removing
        else:
            text = f"{partition} has moved and is on replicas {_ids(new.replicas)}"
            yield EventKind.REASSIGNMENT_ENDED, text, old.adding + old.removing


def _ids(ids: Sequence[int]) -> str:
    return f"[{', '.join(map(str, ids))}]"


_TELL: Mapping[type, Callable[[_Story, Any], Iterator[ClusterEvent]]] = {
    ClusterRecord: _Story.cluster,
    LeaderChangeRecord: _Story.controller,
    VotersRecord: _Story.voters,
    RegisterBrokerRecord: _Story.registered,
    FenceBrokerRecord: _Story.fenced,
    UnfenceBrokerRecord: _Story.unfenced,
    ShutdownBrokerRecord: _Story.stopping,
    UnregisterBrokerRecord: _Story.unregistered,
    TopicRecord: _Story.topic_created,
    RemoveTopicRecord: _Story.topic_deleted,
    PartitionRecord: _Story.partition_added,
    PartitionChangeRecord: _Story.partition_changed,
    NewLeaderEpochsRecord: _Story.epochs_begun,
}
