"""A reader of committed data: what it is shown is checked by the observer, see transaction_truth.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from penstock.broker.context import ConnectionState, RequestContext
from penstock.broker.handlers.fetch import READ_COMMITTED, _Fetch
from tests.sim.transaction_truth import committed_in

if TYPE_CHECKING:
    from penstock.types import TopicPartition
    from tests.sim.transaction_broker import Broker
    from tests.sim.transaction_cluster import Cluster

VERSION = 12
"""Of Fetch: followers serve it, too."""


class Reader:
    """Reads committed data from any replica, from where it was or from the start."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.world = cluster, cluster.world
        self.random = self.world.stream("reader")
        self.offsets: dict[TopicPartition, int] = {}

    def poll(self) -> None:
        self.world.after(self.random.randint(5, 30), self.poll)
        brokers = [each for each in self.cluster.running.values() if not each.loop.is_paused]
        if not brokers:
            return
        where, broker = self.random.choice(self.cluster.partitions), self.random.choice(brokers)
        offset = 0 if self.random.random() < 0.1 else self.offsets.get(where, 0)
        if where in broker.partitions.all:
            self.offsets[where] = max(self.offsets.get(where, 0), self.read(broker, where, offset))

    def read(self, broker: Broker, where: TopicPartition, offset: int) -> int:
        """Up to where."""
        while True:
            answer = read_committed(broker, where, offset)
            found = list(committed_in(bytes(answer.records), answer.aborted or ()))
            self.cluster.truth.read(f"{broker.broker_id}", where, offset, found)
            if not found or answer.error_code:
                return offset
            offset = found[-1][0] + 1


def read_committed(broker: Broker, where: TopicPartition, offset: int) -> Any:
    asked = SimpleNamespace(
        partition=where.partition,
        fetch_offset=offset,
        current_leader_epoch=-1,
        partition_max_bytes=700,
    )
    request = SimpleNamespace(
        topics=[SimpleNamespace(topic=where.topic, partitions=[asked])],
        isolation_level=READ_COMMITTED,
        max_bytes=1 << 20,
        min_bytes=1,
        rack_id="",
    )
    context = RequestContext(broker, VERSION, "", ConnectionState(""), request)
    return _Fetch(request, context).read()[0][1][0]
