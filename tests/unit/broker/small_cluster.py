"""Two nodes in one process and in memory, over real connections: the controller and a broker beside it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from penstock.broker import housekeeper, partitions
from penstock.broker.broker import Broker
from penstock.config import ClusterLimits, NodeConfig
from penstock.metadata.assignments import NewTopic
from penstock.storage import MemoryStorage, Storage
from tests.support.ports import free_port
from tests.support.raw import make_batch
from tests.unit.broker.in_process import WAIT_S_MAX, InProcess, eventually

if TYPE_CHECKING:
    import pytest

    from penstock.broker.partition import Partition
    from penstock.metadata.image import PartitionImage

QUICK = ClusterLimits(
    broker_session_ms=1_000,
    broker_heartbeat_ms=100,
    replica_fetch_wait_ms=100,
    controller_request_ms_max=30_000,
)


class SmallCluster:
    """`controller` is node 1 and a broker, too; `other` is node 2 and only a broker."""

    def __init__(self) -> None:
        port = free_port()
        settings = {
            "http_port": None,
            "storage": "memory",
            "controllers": {1: ("127.0.0.1", port)},
            "cluster": QUICK,
            "offsets_topic_partitions": 2,
        }
        self.controller = Broker(NodeConfig(node_id=1, port=port, **settings), new_storage(1))  # type: ignore[arg-type]
        roles = frozenset({"broker"})
        self.other = Broker(NodeConfig(node_id=2, port=0, roles=roles, **settings), new_storage(2))  # type: ignore[arg-type]

    async def start(self) -> None:
        await asyncio.gather(self.controller.start(), self.other.start())

    async def stop(self) -> None:
        for broker in (self.other, self.controller):
            await broker.stop()


def new_storage(node_id: int) -> Storage:
    return MemoryStorage(uuid.UUID(int=node_id), node_id=node_id, cluster_id="")


def with_cluster(work: Callable[[SmallCluster, InProcess], Awaitable[None]]) -> None:
    """Run `work` with the cluster and a client of the node that is not the controller."""

    async def run() -> None:
        cluster = SmallCluster()
        try:
            async with asyncio.timeout(WAIT_S_MAX):
                await cluster.start()
                await work(cluster, InProcess(cluster.other))
        finally:
            await cluster.stop()

    asyncio.run(run())


def be_impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look after logs that are out of service all the time."""
    monkeypatch.setattr(housekeeper, "OPEN_AGAIN_S", 0.05)
    monkeypatch.setattr(housekeeper, "LOOK_S", 0.05)
    monkeypatch.setattr(partitions, "OPEN_AGAIN_S_MIN", 0.05)
    monkeypatch.setattr(partitions, "DRAIN_S_MAX", 0.2)


async def create(
    cluster: SmallCluster, *names: str, first: int = 1, minimum: int = 1, **configs: str
) -> None:
    """Topics on both brokers, led by `first`."""
    topics = [
        NewTopic(
            name,
            assignments=[(0, (first, 3 - first))],
            configs=[
                ("min.insync.replicas", str(minimum)),
                ("flush", "commit"),
                *((key.replace("_", "."), value) for key, value in configs.items()),
            ],
        )
        for name in names
    ]
    for outcome in await cluster.controller.controller.create_topics(topics):
        assert outcome.error is None, outcome
    for name in names:
        for node in (cluster.controller, cluster.other):
            await eventually(lambda node=node, name=name: node.partitions.get(name, 0) is not None)  # type: ignore[misc]
        await eventually(lambda name=name: set(known(cluster, name).isr) == {1, 2})  # type: ignore[misc]


def known(cluster: SmallCluster, topic: str) -> PartitionImage:
    return cluster.controller.controller.image.topics[topic].partitions[0]


def partition(node: Broker, topic: str) -> Partition:
    found = node.partitions.get(topic, 0)
    assert found is not None
    return found


async def write(node: Broker, topic: str, value: bytes) -> None:
    await partition(node, topic).append_own(make_batch([value]))
