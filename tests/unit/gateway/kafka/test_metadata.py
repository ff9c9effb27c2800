"""What the reader remembers of the cluster, against a broker that says what a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from penstock.gateway.kafka.cluster_client import ClusterClient
from penstock.gateway.kafka.errors import UnknownTopicError
from penstock.gateway.kafka.metadata import Metadata
from penstock.gateway.kafka.reader_limits import ReaderLimits
from penstock.peers.connection import PeerError
from penstock.types import ErrorCode

if TYPE_CHECKING:
    from penstock.gateway.kafka.nodes import Lane, Nodes
    from penstock.peers.peers import Address

LIMITS = ReaderLimits(
    metadata_age_s_max=60, partitions_age_s_max=0, topic_gone_s_max=0.05, backoff_s_min=0.001, topics_max=3
)


class FakeNodes:
    """Brokers 1 and 2 at ports 1 and 2; the seed is at port 9."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.dead: set[int] = set()
        self.topics: dict[str, int] = {}
        self.gate = asyncio.Event()
        self.gate.set()

    async def ask(self, address: Address, lane: Lane, question: Any, *, wait_s: float = 0.0) -> Any:
        self.asked.append(address.port)
        await self.gate.wait()
        if address.port in self.dead:
            raise PeerError("dead")
        return SimpleNamespace(
            brokers=[SimpleNamespace(node_id=port, host="h", port=port) for port in (1, 2)],
            topics=[self._describe(name) for name in question.topics],
        )

    def _describe(self, name: str) -> Any:
        if name not in self.topics:
            return SimpleNamespace(error_code=ErrorCode.unknown_topic_or_partition, name=name)
        partition = SimpleNamespace(
            partition_index=0, leader_id=1, leader_epoch=self.topics[name], replica_nodes=(1,), isr_nodes=(1,)
        )
        return SimpleNamespace(error_code=ErrorCode.none, name=name, topic_id=None, partitions=(partition,))


def with_metadata(body: Callable[[Metadata, FakeNodes], Awaitable[None]]) -> None:
    async def run() -> None:
        nodes = FakeNodes()
        await body(Metadata("h:9", cast("Nodes", nodes), LIMITS), nodes)

    asyncio.run(run())


def test_who_asks_at_the_same_time_shares_the_answer_and_nobody_takes_it_from_others() -> None:
    async def body(metadata: Metadata, nodes: FakeNodes) -> None:
        nodes.topics["t"] = 0
        nodes.gate.clear()
        asking = [asyncio.create_task(metadata.refresh("t")) for _ in range(10)]
        await asyncio.sleep(0)
        asking[0].cancel()
        await asyncio.sleep(0)
        nodes.gate.set()
        views = await asyncio.gather(*asking[1:])
        assert {view.name for view in views} == {"t"}
        assert nodes.asked == [9]

    with_metadata(body)


def test_the_seeds_are_asked_when_no_broker_answers() -> None:
    async def body(metadata: Metadata, nodes: FakeNodes) -> None:
        nodes.topics["t"] = 0
        await metadata.refresh("t")
        nodes.dead = {1, 2}
        await metadata.refresh("t")
        assert nodes.asked[0] == nodes.asked[-1] == 9
        assert sorted(nodes.asked[1:-1]) == [1, 2]
        nodes.dead = {1, 2, 9}
        with pytest.raises(PeerError, match="no broker answers"):
            await metadata.refresh("t")

    with_metadata(body)


def test_only_so_many_topics_are_remembered() -> None:
    async def body(metadata: Metadata, nodes: FakeNodes) -> None:
        for name in "abcde":
            nodes.topics[name] = 0
            await metadata.refresh(name)
        assert [metadata.was_there(name) for name in "abcde"] == [False, False, True, True, True]

    with_metadata(body)


def test_a_topic_that_was_there_is_waited_for_and_then_forgotten() -> None:
    async def run() -> None:
        client, nodes = ClusterClient("h:9", "me", LIMITS), FakeNodes()
        client._metadata = Metadata("h:9", cast("Nodes", nodes), LIMITS)
        nodes.topics["t"] = 0
        assert await client.partitions("t") == [0]
        del nodes.topics["t"]
        asked = len(nodes.asked)
        with pytest.raises(UnknownTopicError):
            await client.partitions("t")
        assert len(nodes.asked) - asked > 2
        asked = len(nodes.asked)
        with pytest.raises(UnknownTopicError):
            await client.partitions("t")
        assert len(nodes.asked) - asked == 1

    asyncio.run(run())
