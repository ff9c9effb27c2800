"""Topics of a peer that speaks Kafka's protocol, made and removed around a measurement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

if TYPE_CHECKING:
    from bench.cluster import Cluster
    from bench.peers.base import Peer
    from bench.session import Session

SECONDS_MAX = 60
FLUSH_EACH = {"flush.messages": "1"}
TWO_IN_SYNC = {"min.insync.replicas": "2"}


@contextmanager
def fresh_topic(
    session: Session, peer: Peer, *, partitions: int = 1, config: Mapping[str, str] | None = None
) -> Iterator[str]:
    name = session.unique("bench")
    if peer.name == "raw sink":  # knows every topic and keeps none
        yield name
        return
    topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
    with _existing(peer.bootstrap, topic):
        yield name


@contextmanager
def replicated_topic(name: str, cluster: Cluster, placement: Sequence[Sequence[int]]) -> Iterator[str]:
    """`placement` names the replicas of each partition, the leader first: the same for every side."""
    topic = NewTopic(
        name,
        num_partitions=len(placement),
        replica_assignment=[list(replicas) for replicas in placement],
        config=TWO_IN_SYNC,
    )
    with _existing(cluster.bootstrap, topic):
        cluster.wait_in_sync(name, [set(replicas) for replicas in placement])
        yield name


@contextmanager
def _existing(bootstrap: str, topic: NewTopic) -> Iterator[None]:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([topic], operation_timeout=SECONDS_MAX)[topic.topic].result(SECONDS_MAX)
    try:
        yield
    finally:
        admin.delete_topics([topic.topic], operation_timeout=SECONDS_MAX)[topic.topic].result(SECONDS_MAX)
