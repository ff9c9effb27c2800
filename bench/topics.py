"""Topics of a peer that speaks Kafka's protocol, made and removed around a measurement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

if TYPE_CHECKING:
    from bench.peers.base import Peer
    from bench.session import Session

SECONDS_MAX = 60
FLUSH_EACH = {"flush.messages": "1"}


@contextmanager
def fresh_topic(
    session: Session, peer: Peer, *, partitions: int = 1, config: Mapping[str, str] | None = None
) -> Iterator[str]:
    name = session.unique("bench")
    if peer.name == "raw sink":  # knows every topic and keeps none
        yield name
        return
    admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 0})
    topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
    admin.create_topics([topic], operation_timeout=SECONDS_MAX)[name].result(SECONDS_MAX)
    try:
        yield name
    finally:
        admin.delete_topics([name], operation_timeout=SECONDS_MAX)[name].result(SECONDS_MAX)
