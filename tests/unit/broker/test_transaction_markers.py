"""Markers of ended transactions, on their way to partitions that take them, or do not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from penstock.broker import marker_writer
from penstock.metadata.assignments import NewTopic
from penstock.peers.peers import Lane
from penstock.transactions.messages import Identity, SendMarkers
from penstock.types import ErrorCode, TopicPartition
from tests.unit.broker.in_process import WAIT_S_MAX, InProcess, eventually, with_broker
from tests.unit.broker.small_cluster import SmallCluster, create, partition, with_cluster

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.partition import Partition
    from penstock.broker.transaction_markers import Outcomes, Queue

STUCK, WELL = TopicPartition("stuck", 0), TopicPartition("well", 0)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker_writer, "COMMIT_S_MAX", 0.1)


async def two_partitions(client: InProcess, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """One of them commits nothing until the event."""
    await client.broker.controller.create_topics([NewTopic("stuck"), NewTopic("well")])
    await client.broker.controller.publisher.settled()
    partition: Partition = client.broker.partitions.require(*STUCK)
    committed, may_go_on = partition.committed, asyncio.Event()

    async def late(end_offset: int) -> None:
        await may_go_on.wait()
        await committed(end_offset)

    monkeypatch.setattr(partition, "committed", late)
    return may_go_on


def send(broker: Broker, number: int, *partitions: TopicPartition) -> asyncio.Event:
    """The end of a transaction in these partitions; set when all have its marker."""
    done = asyncio.Event()
    identity = Identity(f"mine-{number}", number, 0)
    broker.transactions._markers.send(SendMarkers(identity, True, partitions), 0, lambda: True, done.set)
    return done


def test_a_partition_that_is_stuck_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(client: InProcess) -> None:
        may_go_on = await two_partitions(client, monkeypatch)
        stuck = send(client.broker, 1, STUCK, WELL)
        await eventually(lambda: client.broker.partitions.require(*WELL).log.log_end_offset == 1)
        others = [send(client.broker, number, WELL) for number in range(2, 12)]
        async with asyncio.timeout(WAIT_S_MAX):
            for other in others:
                await other.wait()
        assert not stuck.is_set()
        may_go_on.set()
        async with asyncio.timeout(WAIT_S_MAX):
            await stuck.wait()

    with_broker(work)


def test_one_that_was_late_has_a_queue_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(client: InProcess) -> None:
        await two_partitions(client, monkeypatch)
        stuck = send(client.broker, 1, STUCK)
        markers = client.broker.transactions._markers
        await eventually(lambda: STUCK in markers._late)
        monkeypatch.setattr(marker_writer, "COMMIT_S_MAX", 60)
        log = client.broker.partitions.require(*STUCK).log
        end_offset = log.log_end_offset
        await eventually(lambda: log.log_end_offset > end_offset)  # the next attempt is under way
        async with asyncio.timeout(WAIT_S_MAX):
            await send(client.broker, 2, WELL).wait()
        assert not stuck.is_set()

    with_broker(work)


def test_whoever_asks_for_a_marker_is_answered_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(client: InProcess) -> None:
        await two_partitions(client, monkeypatch)
        topics = [{"name": name, "partition_indexes": [0]} for name in ("stuck", "well")]
        marker = {
            "producer_id": 5,
            "producer_epoch": 0,
            "transaction_result": True,
            "coordinator_epoch": 0,
            "topics": topics,
        }
        async with asyncio.timeout(WAIT_S_MAX):
            answer = await client.ask(27, 1, {"markers": [marker]})
        found = {each.name: each.partitions[0].error_code for each in answer.markers[0].topics}
        assert found == {"stuck": ErrorCode.request_timed_out, "well": ErrorCode.none}

    with_broker(work)


def test_one_that_was_late_at_another_node_holds_up_no_other_on_its_connection() -> None:
    """There, too: answers on one connection come in the order of the requests."""

    async def work(cluster: SmallCluster, _: InProcess) -> None:
        await create(cluster, "stuck", "well", first=2)
        await eventually(lambda: partition(cluster.other, "well").is_leader)
        peers, markers = cluster.controller.peers, cluster.controller.transactions._markers
        ask, asked, may_go_on = peers.ask, asyncio.Event(), asyncio.Event()
        turns: dict[Lane, asyncio.Lock] = {}

        async def one_at_a_time(node_id: int, lane: Lane, *arguments: Any, **options: Any) -> Any:
            if lane not in (Lane.MARKERS, Lane.LATE_MARKERS):
                return await ask(node_id, lane, *arguments, **options)
            async with turns.setdefault(lane, asyncio.Lock()):
                if not asked.is_set():
                    asked.set()
                    await may_go_on.wait()
                return await ask(node_id, lane, *arguments, **options)

        peers.ask = one_at_a_time  # type: ignore[method-assign]
        markers._late.add(STUCK)
        stuck = send(cluster.controller, 1, STUCK)
        await asked.wait()
        async with asyncio.timeout(WAIT_S_MAX):
            await send(cluster.controller, 2, WELL).wait()
        assert not stuck.is_set()
        may_go_on.set()
        async with asyncio.timeout(WAIT_S_MAX):
            await stuck.wait()

    with_cluster(work)


def test_a_fault_on_the_way_is_not_the_end_of_a_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(client: InProcess) -> None:
        (await two_partitions(client, monkeypatch)).set()
        markers = client.broker.transactions._markers
        write_here, faults = markers._write_here, [RuntimeError("a fault"), RuntimeError("another")]

        async def faulty(endings: Queue) -> Outcomes:
            if faults:
                raise faults.pop()
            return await write_here(endings)

        monkeypatch.setattr(markers, "_write_here", faulty)
        async with asyncio.timeout(WAIT_S_MAX):
            await send(client.broker, 1, WELL).wait()
        assert not faults

    with_broker(work)
