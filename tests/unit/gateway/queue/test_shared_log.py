"""Several gateways on one log, with delays by chance: what each is told is what the log says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.gateway.kafka.errors import KafkaUnavailableError
from penstock.gateway.queue.position_logs import PositionLog
from penstock.gateway.queue.positions import Claim, Positions, Verdict
from penstock.gateway.queue.produce_index import ProduceIndex
from penstock.gateway.queue.registry import Kind, Registration, Registrations, Registry
from penstock.gateway.queue.shared_log import Machine, SharedLog
from penstock.gateway.queue.strict import MalformedRecordError
from penstock.gateway.streams.client_registry import Clients
from tests.unit.gateway.queue.fake_kafka import FakeCluster, FakeKafka

SEEDS = range(40)
TOPIC = "topic-id"


class Counted:
    """What `apply` gives is how many records there were before, and the record."""

    def begin(self, log_start: int) -> None:
        self.seen: list[tuple[int, bytes]] = []

    def apply(self, offset: int, value: bytes) -> tuple[int, bytes]:
        self.seen.append((offset, value))
        return len(self.seen) - 1, value


@pytest.mark.parametrize("seed", SEEDS)
def test_each_record_is_applied_once_and_in_order_by_all(seed: int) -> None:
    async def run() -> None:
        cluster = FakeCluster(seed)
        machines = [Counted() for _ in range(3)]
        logs = [SharedLog(kafka_of(cluster), "t", 0, 1, machine) for machine in machines]

        async def append(i: int) -> None:
            value = b"%d" % i
            offset, (before, applied) = await logs[i % 3].append(value)
            assert (before, applied) == (offset, value)

        await asyncio.gather(*(append(i) for i in range(60)))
        for log in logs:
            await log.catch_up()
        written = [(record.offset, record.value) for record in cluster.log("t", 0).records]
        assert len(written) == 60
        assert all(machine.seen == written for machine in machines)

    asyncio.run(run())


def kafka_of(cluster: FakeCluster) -> Any:
    return FakeKafka(cluster)


def test_a_gateway_that_is_alone_does_not_read_what_it_writes() -> None:
    async def run() -> None:
        kafka = kafka_of(FakeCluster(1))
        log = SharedLog(kafka, "t", 0, 1, Counted())
        for i in range(50):
            await log.append(b"%d" % i)
        assert kafka.fetches == 0

    asyncio.run(run())


def test_a_log_that_was_lost_is_read_from_its_beginning() -> None:
    async def run() -> None:
        cluster = FakeCluster(1)
        mine, other = Registry(kafka_of(cluster)), Registry(kafka_of(cluster))
        ids = [await mine.register(Kind.PRODUCER, f"t{i}") for i in range(5)]
        assert await other.find(ids[4]) == Registration("producer", "t4")
        cluster.topics.clear()
        assert await mine.find(6) is None, "looking for somebody unknown shows that the log is another one"
        assert await mine.find(ids[4]) is None
        new = await mine.register(Kind.CONSUMER, "new")
        with pytest.raises(KafkaUnavailableError):  # as one that writes finds out
            await other.register(Kind.CONSUMER, "newer")
        assert await other.find(new) == Registration("consumer", "new")

    asyncio.run(run())


def test_ids_cannot_be_guessed_and_one_that_is_taken_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        registry = Registry(kafka_of(FakeCluster(1)))
        ids = [await registry.register(Kind.CONSUMER, "t") for _ in range(50)]
        assert len(set(ids)) == 50
        assert all(0 < each < 2**53 for each in ids)
        assert max(ids) > 2**48, "not in a row, and of many"
        drawn = iter([ids[7] - 1, ids[8] - 1, 41])
        monkeypatch.setattr("secrets.randbelow", lambda _: next(drawn))
        assert await registry.register(Kind.PRODUCER, "u") == 42
        assert await registry.find(ids[7]) == Registration("consumer", "t")

    asyncio.run(run())


def test_ids_of_older_gateways_are_the_offsets_of_their_records() -> None:
    registrations = Registrations()
    assert registrations.apply(6, b'{"kind":"producer","topic":"t"}')
    assert registrations.get(7) == Registration("producer", "t")


def test_a_log_that_was_trimmed_meanwhile_still_says_what_became_of_a_claim() -> None:
    async def run() -> None:
        cluster = FakeCluster(2)
        busy, idle = (PositionLog(kafka_of(cluster), 0, checkpoint_records=10) for _ in range(2))
        await idle.load()
        for offset in range(40):
            await busy.claim(Claim(1, None, TOPIC if offset else None, TOPIC, 0, offset or None, offset))
        await busy.close()
        assert cluster.log("__penstock_positions", 0).start > 0
        outcome = await idle.claim(Claim(2, None, None, TOPIC, 0, None, 0))
        assert outcome.verdict is Verdict.GRANTED

    asyncio.run(run())


@pytest.mark.parametrize("seed", SEEDS)
def test_claims_of_several_gateways_with_checkpoints(seed: int) -> None:
    """Three gateways hand out 60 messages to one consumer; checkpoints are written and the log is trimmed."""

    async def run() -> None:
        cluster = FakeCluster(seed)
        logs = [PositionLog(kafka_of(cluster), 0, checkpoint_records=7) for _ in range(3)]
        handed: list[int] = []

        async def consume(log: PositionLog) -> None:
            while True:
                try:
                    await log.load()
                    state = log.of(7)
                    was, position = state.topic_id, state.position(TOPIC, 0)
                    if (position or 0) >= 60:
                        return
                    await cluster.pause()
                    outcome = await log.claim(Claim(7, None, was, TOPIC, 0, position, position or 0))
                except KafkaUnavailableError:  # the log was trimmed under its feet: the client repeats
                    continue
                if outcome.verdict is Verdict.GRANTED:
                    assert outcome.handed is not None
                    handed.append(outcome.handed.offset)

        await asyncio.gather(*(consume(log) for log in logs))
        for log in logs:
            await log.close()
        assert len(handed) == len(set(handed))
        # A gateway that did not learn what became of its claim hands nothing out.
        assert set(handed) <= set(range(60))
        assert len(handed) >= 50
        assert cluster.log("__penstock_positions", 0).start > 0
        fresh = PositionLog(kafka_of(cluster), 0, checkpoint_records=7)
        await fresh.load()
        assert fresh.of(7).positions == {0: 60}

    asyncio.run(run())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_produce_request_is_stored_once(seed: int) -> None:
    """Repeated at the same gateway at any moment, and at another one after the first attempt is over."""

    async def run() -> None:
        cluster = FakeCluster(seed)
        await kafka_of(cluster).create_topic("t")
        gateways = [ProduceIndex(kafka_of(cluster), "t", 0, 1_000) for _ in range(3)]

        async def produce(i: int) -> None:
            request = b"1:%d" % i
            home = gateways[i % 3]
            first, again = await asyncio.gather(home.send(request, b"v"), home.send(request, b"v"))
            assert first == again
            elsewhere = [gateway.send(request, b"v") for gateway in gateways]
            assert set(await asyncio.gather(*elsewhere)) == {first}

        await asyncio.gather(*(produce(i) for i in range(30)))
        stored = [dict(record.headers)["penstock-request"] for record in cluster.log("t", 0).records]
        assert len(stored) == len(set(stored)) == 30

    asyncio.run(run())


def test_the_index_begins_anew_with_another_log() -> None:
    async def run() -> None:
        cluster = FakeCluster(3)
        kafka = kafka_of(cluster)
        await kafka.create_topic("t")
        index = ProduceIndex(kafka, "t", 0, 1_000)
        assert [await index.send(b"1:%d" % i, b"v") for i in range(5)] == [0, 1, 2, 3, 4]
        cluster.topics.clear()
        await kafka.create_topic("t")
        assert await index.send(b"1:3", b"v") == 0
        assert await index.send(b"1:3", b"v") == 0

    asyncio.run(run())


FOREIGN = [
    b"", b"\xff", b"null", b"{}", b"[]", b"7", b'"claim"', b"[" * 2000,
    b'{"kind":"producer"}', b'{"kind":7,"topic":"t"}', b'{"kind":"king","topic":"t"}',
    b'{"kind":"consumer","topic":"not a topic"}',
    b'["claim"]', b'["claim",1,null,null,"t",0,null]', b'["claim",true,null,null,"t",0,null,0]',
    b'["claim",1,null,null,"t",-1,null,0]', b'["claim",1,null,null,"t",0,null,99999999999999999999]',
    b'["claim",1,{},null,"t",0,null,0]', b'["claim",1,null,null,null,0,null,0]',
    b'["checkpoint","x",0,0,0,[]]', b'["checkpoint","x",0,-1,1,[]]', b'["checkpoint","x",999,0,1,[]]',
    b'["checkpoint","x",0,0,1,[7]]', b'["checkpoint","x",0,0,1,[[1,[]]]]',
    b'["checkpoint","x",0,0,1,[[1,["t",[[0,"5"]],0,[]]]]]',
    b'["checkpoint","x",0,0,1,[[1,["t",[[0,5]],0,[["r",0]]]]]]',
    b'{"topic":"t","topic_id":"i","client":"c","asked":-2,"producer_id":1,"partition":0}',
    b'{"topic":"t","topic_id":"i","client":"c","asked":-1,"producer_id":-1,"partition":0}',
]  # fmt: skip


@pytest.mark.parametrize("value", FOREIGN)
@pytest.mark.parametrize("machine", [Registrations, Positions, Clients])
def test_what_is_not_of_the_gateway_is_malformed(machine: type[Machine], value: bytes) -> None:
    state = machine()
    state.begin(0)
    with pytest.raises(MalformedRecordError):
        state.apply(5, value)


def test_malformed_records_stop_nothing_and_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        cluster = FakeCluster(4)
        registry, positions = Registry(kafka_of(cluster)), PositionLog(kafka_of(cluster), 0, 100)
        await registry.register(Kind.PRODUCER, "t")
        await positions.load()
        stranger = kafka_of(cluster)
        for value in FOREIGN:
            await stranger.send("__penstock_ids", value)
            await stranger.send("__penstock_positions", value)
        identity = await registry.register(Kind.CONSUMER, "t")
        for each in (registry, Registry(kafka_of(cluster))):
            assert await each.find(identity) == Registration("consumer", "t")
            assert await each.find(identity + 1) is None
        outcome = await positions.claim(Claim(16, None, None, TOPIC, 0, None, 0))
        assert outcome.verdict is Verdict.GRANTED

    asyncio.run(run())
    lines = [line for line in caplog.messages if line.startswith("passed over the record at offset 1 of")]
    # Two gateways have read the ids, and one the positions, each log from its beginning.
    assert sum("__penstock_ids-0" in line for line in lines) == 2
    assert sum("__penstock_positions-0" in line for line in lines) == 1
