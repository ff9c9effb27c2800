"""The cluster as its metadata tells it: where brokers are, who leads what, and whom a reader should ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from penstock.gateway.kafka.errors import UnknownPartitionError
from penstock.gateway.kafka.questions import NO_EPOCH
from penstock.peers.peers import Address


class NoLeaderError(Exception):
    """At this moment nobody leads the partition, or nobody knows where its leader is."""


class PartitionView(NamedTuple):
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicView:
    name: str
    topic_id: UUID | None
    """None from brokers that do not tell."""
    partitions: dict[int, PartitionView]
    seen_at: float


class Route(NamedTuple):
    """Whom to ask for a partition."""

    node_id: int
    address: Address
    leader_epoch: int
    topic_id: UUID | None
    is_leader: bool


class PreferredReplicas:
    """Followers nearer than the leader, as leaders recommended them."""

    def __init__(self, seconds_max: float) -> None:
        self._seconds_max = seconds_max
        self._preferred: dict[tuple[str, int], tuple[int, float]] = {}

    def prefer(self, topic: str, partition: int, node_id: int, now: float) -> None:
        self._preferred[topic, partition] = (node_id, now + self._seconds_max)

    def forget(self, topic: str, partition: int) -> None:
        self._preferred.pop((topic, partition), None)

    def of(self, topic: str, partition: int, now: float) -> int | None:
        node_id, until = self._preferred.get((topic, partition), (-1, 0.0))
        if node_id < 0:
            return None
        if now >= until:
            self.forget(topic, partition)
            return None
        return node_id


def route_to(topic: TopicView, partition: int, brokers: dict[int, Address], preferred: int | None) -> Route:
    """The preferred replica if it is known and still in sync, else the leader."""
    view = topic.partitions.get(partition)
    if view is None:
        raise UnknownPartitionError(topic.name, partition)
    if preferred is not None and preferred in view.in_sync and preferred in brokers:
        # Which epoch a follower has heard of is its own affair: NO_EPOCH asks for no check.
        is_leader = preferred == view.leader
        epoch = view.leader_epoch if is_leader else NO_EPOCH
        return Route(preferred, brokers[preferred], epoch, topic.topic_id, is_leader)
    if view.leader < 0:
        raise NoLeaderError(f"{topic.name}-{partition} has no leader")
    if view.leader not in brokers:
        raise NoLeaderError(f"{topic.name}-{partition}: its leader, broker {view.leader}, is not there")
    return Route(view.leader, brokers[view.leader], view.leader_epoch, topic.topic_id, is_leader=True)


def brokers_in(answer: Any) -> dict[int, Address]:
    return {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}


def topic_in(described: Any, now: float) -> TopicView:
    """A topic of a metadata answer; older versions know no ids."""
    partitions = {
        each.partition_index: PartitionView(
            each.leader_id, each.leader_epoch, tuple(each.replica_nodes), tuple(each.isr_nodes)
        )
        for each in described.partitions
    }
    topic_id: UUID | None = getattr(described, "topic_id", None)
    return TopicView(described.name, topic_id, partitions, now)


def is_outdated(known: TopicView | None, told: TopicView) -> bool:
    """A broker that is behind tells of leaders that were; epochs never go back while a topic lives."""
    if known is None or known.topic_id != told.topic_id or known.topic_id is None:
        return False
    return any(
        told.partitions[index].leader_epoch < view.leader_epoch
        for index, view in known.partitions.items()
        if index in told.partitions
    )
