"""Registrations that nobody uses are forgotten, by all gateways and by the log; those in use never are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from penstock.gateway.queue.last_used import KEPT_FOREVER, LastUsed, Life
from penstock.gateway.queue.position_logs import PositionLog
from penstock.gateway.queue.positions import Claim
from penstock.gateway.queue.registry import Kind, Registration, Registrations, Registry
from penstock.gateway.queue.strict import MalformedRecordError
from penstock.gateway.streams.client_registry import Client, ClientRegistry
from tests.unit.gateway.queue.fake_kafka import FakeCluster, FakeKafka

IDLE_MS = 1_000
IDS = "__penstock_ids"


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now


class Gateways:
    """Any number of them on one log, and a clock that all of them see."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.life = Life(IDLE_MS, self.clock)
        self.cluster = FakeCluster(1)

    def kafka(self) -> Any:
        return FakeKafka(self.cluster)

    def registry(self) -> Registry:
        return Registry(self.kafka(), self.life)


def test_what_is_not_used_is_forgotten_and_what_is_used_is_not() -> None:
    async def run() -> None:
        gateways = Gateways()
        registry = gateways.registry()
        used, unused = [await registry.register(Kind.CONSUMER, "t") for _ in range(2)]
        for _ in range(30):
            gateways.clock.now += IDLE_MS // 5
            assert await registry.use(used) == Registration("consumer", "t")
        for each in (registry, gateways.registry()):
            assert await each.use(unused) is None
            assert await each.use(used) is not None
        written = len(gateways.cluster.log(IDS, 0).records)
        await registry.use(used)
        assert len(gateways.cluster.log(IDS, 0).records) == written, "it is written again now and then only"

    asyncio.run(run())


def test_what_another_gateway_uses_is_not_forgotten() -> None:
    async def run() -> None:
        gateways = Gateways()
        here, there = gateways.registry(), gateways.registry()
        identity = await here.register(Kind.PRODUCER, "t")
        for _ in range(10):
            gateways.clock.now += IDLE_MS // 2
            assert await there.use(identity) is not None
        assert here.known(identity) is None
        assert await here.use(identity) == Registration("producer", "t")

    asyncio.run(run())


def test_the_log_may_lose_what_is_older_than_its_retention() -> None:
    async def run() -> None:
        gateways = Gateways()
        registry = gateways.registry()
        used, unused = [await registry.register(Kind.CONSUMER, "t") for _ in range(2)]
        for _ in range(20):
            gateways.clock.now += IDLE_MS // 2
            await registry.use(used)
        await gateways.kafka().delete_records(IDS, 0, gateways.cluster.log(IDS, 0).end - 5)
        for each in (registry, gateways.registry()):
            assert await each.use(used) == Registration("consumer", "t")
            assert await each.use(unused) is None

    asyncio.run(run())


def test_the_topic_is_created_with_that_retention() -> None:
    config = Life(IDLE_MS).topic_config()
    assert config["retention.ms"] == "2000"
    assert int(config["segment.ms"]) < IDLE_MS
    assert Life(0).topic_config() == KEPT_FOREVER


def test_memory_is_given_back() -> None:
    clock = Clock()
    registrations = Registrations(Life(IDLE_MS, clock))
    for offset in range(1_000):
        clock.now += 10
        at = 2**62 if offset == 50 else clock.now  # a stranger may write what he likes
        registrations.apply(offset, b'{"id":%d,"kind":"consumer","topic":"t","at":%d}' % (offset + 1, at))
    assert len(registrations) <= IDLE_MS // 10 + 1


@pytest.mark.parametrize("at", ["now", -1, 1.5, True])
def test_times_that_are_none(at: object) -> None:
    used: LastUsed[int, str] = LastUsed(Life(IDLE_MS, Clock()))
    with pytest.raises(MalformedRecordError):
        used.put(1, "a", at)
    assert used.get(1) is None


def test_positions_of_consumers_that_are_forgotten_go_with_the_next_checkpoint() -> None:
    async def run() -> None:
        gateways = Gateways()
        registry = gateways.registry()
        used, unused = [await registry.register(Kind.CONSUMER, "t") for _ in range(2)]
        positions = PositionLog(gateways.kafka(), 0, 10, registry.all_known)
        await positions.claim(Claim(unused, None, None, "i", 0, None, 0))
        for offset in range(40):
            gateways.clock.now += IDLE_MS // 20
            await registry.use(used)
            await positions.claim(Claim(used, None, "i" if offset else None, "i", 0, offset or None, offset))
        await positions.close()
        fresh = PositionLog(gateways.kafka(), 0, 10)
        await fresh.load()
        assert fresh.of(used).positions == {0: 40}
        assert fresh.of(unused).positions == {}

    asyncio.run(run())


def test_a_consumer_that_comes_while_the_registry_is_read_keeps_its_position() -> None:
    async def run() -> None:
        late = 7
        kafka: Any = FakeKafka(FakeCluster(1))

        async def registered() -> Callable[[int], bool]:
            """As it was before the late one came."""
            await positions.claim(Claim(late, None, None, "i", 0, None, 0))
            return lambda identity: identity != late

        positions = PositionLog(kafka, 0, 10, registered)
        for offset in range(12):
            await positions.claim(Claim(1, None, "i" if offset else None, "i", 0, offset or None, offset))
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert positions.of(late).positions == {0: 1}

    asyncio.run(run())


class Writer:
    def __init__(self) -> None:
        self.given = 0

    async def new_producer_id(self) -> int:
        self.given += 1
        return self.given


class KafkaWithIds(FakeKafka):
    async def topic_id(self, topic: str) -> str:
        return f"id of {topic}"


def test_a_client_that_numbers_its_messages_keeps_its_producer_id_as_long_as_it_comes() -> None:
    async def run() -> None:
        gateways = Gateways()
        await gateways.kafka().create_topic("t")
        kafka: Any = KafkaWithIds(gateways.cluster)
        writer: Any = Writer()
        clients = ClientRegistry(kafka, writer, gateways.life)
        for _ in range(10):
            assert await clients.find("t", "c", None) == Client(1, 0)
            gateways.clock.now += IDLE_MS // 2
        gateways.clock.now += IDLE_MS
        assert await clients.find("t", "c", None) == Client(2, 0)
        assert await ClientRegistry(kafka, writer, gateways.life).find("t", "c", None) == Client(2, 0)

    asyncio.run(run())
