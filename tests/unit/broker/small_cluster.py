"""Two nodes in one process and in memory, over real connections: the controller and a broker beside it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable

from penstock.broker.broker import Broker
from penstock.config import ClusterLimits, NodeConfig
from penstock.storage import MemoryStorage
from tests.support.ports import free_port
from tests.unit.broker.in_process import WAIT_S_MAX, InProcess

QUICK = ClusterLimits(
    broker_session_ms=1_000,
    broker_heartbeat_ms=100,
    replica_fetch_wait_ms=100,
    controller_request_ms_max=1_000,
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


def new_storage(node_id: int) -> MemoryStorage:
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
