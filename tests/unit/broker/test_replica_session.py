"""Fetch sessions as a leader keeps them: asked in process, and by a follower over real connections."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kio.schema.fetch.v17.request import FetchRequest
from kio.serial import entity_reader

from penstock.broker import replica_session
from penstock.broker.broker import Broker
from penstock.peers.connection import PeerConnection
from penstock.peers.peers import Lane
from penstock.replication.fetch_session import NOT_HERE
from penstock.types import ErrorCode
from penstock.wire.batch import read_header
from penstock.wire.exchange import load_exchange
from penstock.wire.records import Record, encode_batch
from tests.unit.broker.in_process import InProcess, begin_epoch, eventually, with_broker
from tests.unit.broker.small_cluster import SmallCluster, with_cluster

if TYPE_CHECKING:
    import pytest

    from penstock.broker.partition import Partition
    from penstock.replication.replica_fetch import ReplicaFetch

FETCH, CREATE_TOPICS, DELETE_TOPICS = 1, 19, 20
OK = ErrorCode.none
Key = tuple[UUID, int]
READ = entity_reader(FetchRequest)
NEVER_MS, ALWAYS_MS = 1 << 40, 0


async def create(client: InProcess, count: int, name: str = "t") -> list[Partition]:
    """Led here, with broker 2 in sync."""
    body = {"topics": [{"name": name, "num_partitions": count, "replication_factor": 1}]}
    await client.ask(CREATE_TOPICS, 7, body)
    partitions = [client.broker.partitions.require(name, index) for index in range(count)]
    for partition in partitions:
        image = partition.image
        partition.apply(
            image._replace(replicas=(1, 2), isr=(1, 2), partition_epoch=image.partition_epoch + 1),
            live={1, 2},
        )
        await partition.settle()
    return partitions


async def append(partition: Partition, size: int = 1) -> None:
    batch = encode_batch([Record(0, 1, None, b"v" * size)])
    partition.append(batch, read_header(batch))
    await partition.settle()


class Follower:
    """Broker 2, which fetches over one connection and keeps what it was told."""

    def __init__(self, broker: Broker) -> None:
        self.client = InProcess(broker)
        self.session_id = 0
        self.session_epoch = 0
        self.bytes_max = 1 << 20

    async def ask(
        self,
        partitions: dict[Key, tuple[int, int, int]] | None = None,
        forgotten: tuple[Key, ...] = (),
        *,
        wait_ms: int = 0,
        replica_epoch: int = 5,
        **request: Any,
    ) -> Any:
        """Partitions by (leader epoch, offset, last epoch)."""
        body = {
            "replica_state": {"replica_id": 2, "replica_epoch": replica_epoch},
            "max_wait": timedelta(milliseconds=wait_ms),
            "min_bytes": 1,
            "max_bytes": self.bytes_max,
            "session_id": self.session_id,
            "session_epoch": self.session_epoch,
            "topics": [
                {"topic_id": topic_id, "partitions": [asking(index, *position, self.bytes_max)]}
                for (topic_id, index), position in (partitions or {}).items()
            ],
            "forgotten_topics_data": [
                {"topic_id": topic_id, "partitions": [index]} for topic_id, index in forgotten
            ],
        }
        answer = await self.client.ask(FETCH, 17, body | request)
        if answer.error_code is OK and not request:
            self.session_id = answer.session_id
            self.session_epoch += 1
        return answer


def asking(index: int, epoch: int, offset: int, last_epoch: int, bytes_max: int) -> dict[str, int]:
    return {
        "partition": index,
        "current_leader_epoch": epoch,
        "fetch_offset": offset,
        "last_fetched_epoch": last_epoch,
        "log_start_offset": 0,
        "partition_max_bytes": bytes_max,
    }


def answers_in(answer: Any) -> dict[Key, Any]:
    assert answer.error_code is OK
    return {
        (topic.topic_id, found.partition_index): found
        for topic in answer.responses
        for found in topic.partitions
    }


def key_of(partition: Partition) -> Key:
    return partition.topic_id, partition.index


def empty(*partitions: Partition) -> dict[Key, tuple[int, int, int]]:
    return {key_of(partition): (partition.leader_epoch, 0, -1) for partition in partitions}


def watchers(partition: Partition) -> int:
    return len(partition._replica_readers)


def test_a_fetch_of_idle_partitions_carries_none_of_them() -> None:
    async def work(client: InProcess) -> None:
        partitions = await create(client, 5)
        follower = Follower(client.broker)
        first = await follower.ask(empty(*partitions))
        assert answers_in(first).keys() == {key_of(each) for each in partitions}
        assert first.session_id > 0
        assert answers_in(await follower.ask()) == {}
        await append(partitions[3])
        second = answers_in(await follower.ask())
        assert list(second) == [key_of(partitions[3])]
        assert second[key_of(partitions[3])].records

    with_broker(work)


def test_idle_partitions_are_fetched_by_each_request_that_names_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(client: InProcess) -> None:
        partitions = await create(client, 3)
        fetched: list[tuple[int, int]] = []
        for each in partitions:

            def count(replica: object, fetch: ReplicaFetch, index: int = each.index) -> None:
                fetched.append((index, fetch.offset))

            each.replica_fetched = count  # type: ignore[method-assign, assignment]
        follower = Follower(client.broker)
        await follower.ask(empty(*partitions))
        fetched.clear()
        for _ in range(2):
            await follower.ask()
            assert sorted(fetched) == [(0, 0), (1, 0), (2, 0)]
            fetched.clear()
        monkeypatch.setattr(replica_session, "COUNT_MS", NEVER_MS)
        await follower.ask()
        assert fetched == [], "but it is cheap to be asked often"
        await follower.ask(replica_epoch=6)
        assert sorted(fetched) == [(0, 0), (1, 0), (2, 0)], "another incarnation counts at once"

    monkeypatch.setattr(replica_session, "COUNT_MS", ALWAYS_MS)
    with_broker(work)


def test_an_earlier_incarnation_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(client: InProcess) -> None:
        (partition,) = await create(client, 1)
        earlier, later = Follower(client.broker), Follower(client.broker)
        await earlier.ask(empty(partition))
        await later.ask(empty(partition), replica_epoch=6)
        found = answers_in(await earlier.ask())[key_of(partition)]
        assert found.error_code is ErrorCode.not_leader_or_follower
        assert answers_in(await later.ask(replica_epoch=6)) == {}

    monkeypatch.setattr(replica_session, "COUNT_MS", ALWAYS_MS)
    with_broker(work)


def test_a_log_start_that_retention_moved_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(client: InProcess) -> None:
        (partition,) = await create(client, 1)
        await append(partition)
        follower = Follower(client.broker)
        await follower.ask({key_of(partition): (0, 1, 0)})
        partition.log.delete_records_before(1)
        found = answers_in(await follower.ask())[key_of(partition)]
        assert (found.error_code, found.log_start_offset) == (OK, 1)

    monkeypatch.setattr(replica_session, "COUNT_MS", ALWAYS_MS)
    with_broker(work)


def test_which_requests_are_refused() -> None:
    async def work(client: InProcess) -> None:
        partitions = await create(client, 1)
        follower, other = Follower(client.broker), Follower(client.broker)
        await follower.ask(empty(*partitions))
        await other.ask(empty(*partitions))
        assert follower.session_id != other.session_id
        strangers = Follower(client.broker)
        for asked_by in (other, strangers):
            answer = await asked_by.ask(session_id=follower.session_id, session_epoch=1)
            assert answer.error_code is ErrorCode.fetch_session_id_not_found
            assert (answer.session_id, answer.responses) == (0, ())
        for epoch in (2, 5):
            answer = await follower.ask(session_epoch=epoch)
            assert answer.error_code is ErrorCode.invalid_fetch_session_epoch
        assert answers_in(await follower.ask()) == {}, "the right one goes on"
        assert answers_in(await other.ask()) == {}

    with_broker(work)


def test_a_full_fetch_takes_the_place_of_a_session() -> None:
    async def work(client: InProcess) -> None:
        first, second = await create(client, 2)
        follower = Follower(client.broker)
        await follower.ask(empty(first))
        before = follower.session_id
        answer = await follower.ask(empty(second), session_epoch=0)
        assert list(answers_in(answer)) == [key_of(second)]
        assert answer.session_id not in (0, before)
        assert (watchers(first), watchers(second)) == (0, 1)
        assert (await follower.ask()).error_code is ErrorCode.fetch_session_id_not_found
        answer = await follower.ask(empty(second), session_epoch=-1)
        assert (list(answers_in(answer)), answer.session_id) == ([key_of(second)], 0)
        assert (watchers(first), watchers(second)) == (0, 0)

    with_broker(work)


def test_what_is_not_led_here_is_answered_once_and_not_kept() -> None:
    async def work(client: InProcess) -> None:
        (partition,) = await create(client, 1)
        unknown = {(UUID(int=number), 0): (0, 0, -1) for number in range(100, 120)}
        follower = Follower(client.broker)
        answers = answers_in(await follower.ask(empty(partition) | unknown))
        assert {answers[key].error_code for key in unknown} == {ErrorCode.unknown_topic_id}
        assert answers_in(await follower.ask()) == {}
        begin_epoch(partition, 2)
        image = partition.image
        partition.apply(
            image._replace(leader=2, leader_epoch=3, partition_epoch=image.partition_epoch + 1), {1, 2}
        )
        found = answers_in(await follower.ask())[key_of(partition)]
        assert found.error_code is ErrorCode.not_leader_or_follower
        assert answers_in(await follower.ask(forgotten=(key_of(partition),))) == {}
        assert watchers(partition) == 0

    with_broker(work)


def test_with_little_room_each_partition_gets_its_turn() -> None:
    async def work(client: InProcess) -> None:
        partitions = await create(client, 4)
        for partition in partitions:
            for _ in range(5):
                await append(partition, 1_000)
        follower = Follower(client.broker)
        follower.bytes_max = 1
        offsets = {key_of(each): 0 for each in partitions}
        changed = dict.fromkeys(offsets, (0, 0, -1))
        given: list[Key] = []
        for _ in range(8):
            answers = answers_in(await follower.ask(changed))
            (key,) = (key for key, found in answers.items() if found.records)
            given.append(key)
            offsets[key] += 1
            changed = {key: (0, offsets[key], 0)}
        assert sorted(offsets.values()) == [2, 2, 2, 2]
        assert given[:4] == given[4:]

    with_broker(work)


def test_a_fetch_waits_until_its_time_is_over_whatever_wakes_it() -> None:
    async def work(client: InProcess) -> None:
        (partition,) = await create(client, 1)
        follower = Follower(client.broker)
        await follower.ask(empty(partition))
        waiting = asyncio.create_task(follower.ask(wait_ms=60))
        await asyncio.sleep(0.01)
        partition._wake_readers()  # for nothing
        await asyncio.sleep(0.01)
        assert not waiting.done()
        assert answers_in(await waiting) == {}

    with_broker(work)


def test_what_the_follower_was_told_is_what_a_full_fetch_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever happens to the partitions, and although only those that moved are looked at."""

    async def work(client: InProcess) -> None:
        for seed in range(4):
            await compare(client, random.Random(seed), await create(client, 4, f"t{seed}"))

    monkeypatch.setattr(replica_session, "COUNT_MS", NEVER_MS)
    with_broker(work)


async def compare(client: InProcess, chance: random.Random, partitions: list[Partition]) -> None:
    follower, oracle = Follower(client.broker), Follower(client.broker)
    asked = empty(*partitions)
    told = {key: plain(found) for key, found in answers_in(await follower.ask(asked)).items()}
    for _ in range(60):
        partition = chance.choice(partitions)
        key = key_of(partition)
        changed: dict[Key, tuple[int, int, int]] = {}
        match chance.choice(["append", "append", "fetch", "fetch", "delete", "epoch", "nothing"]):
            case "append":
                await append(partition)
            case "delete":
                partition.log.delete_records_before(partition.high_watermark)
                partition._wake_readers()  # as DeleteRecords does
            case "epoch":
                begin_epoch(partition, partition.leader_epoch + 1)
                await partition.settle()
            case "fetch":
                end_offset = partition.log.log_end_offset
                epoch_there = partition.log.epochs.epoch_at(end_offset - 1) if end_offset else -1
                changed[key] = (partition.leader_epoch, end_offset, epoch_there)
        asked |= changed
        news = answers_in(await follower.ask(changed))
        told = {each: (*found[:-1], b"") for each, found in told.items()}  # records come once
        told |= {each: plain(found) for each, found in news.items()}
        full = answers_in(await oracle.ask(asked, session_epoch=-1))
        for each, found in full.items():
            if plain(found)[-1] or found.error_code is not OK:
                continue  # told once, for the follower to act upon
            assert told[each] == plain(found)


def plain(found: Any) -> tuple[Any, ...]:
    return found.error_code, found.high_watermark, found.log_start_offset, bytes(found.records or b"")


def test_a_session_ends_with_its_connection() -> None:
    async def work(client: InProcess) -> None:
        (partition,) = await create(client, 1)
        connection = await PeerConnection.open("127.0.0.1", client.broker.port, 5.0)
        exchange = load_exchange(FETCH, 17)
        body = {
            "replica_state": {"replica_id": 2, "replica_epoch": 5},
            "max_bytes": 1000,
            "session_epoch": 0,
            "topics": [{"topic_id": partition.topic_id, "partitions": [asking(0, 0, 0, -1, 1000)]}],
        }
        answer = exchange.response(await connection.ask(1, [exchange.request(1, "n", body)], 5.0))
        assert answer.session_id > 0
        assert watchers(partition) == 1
        connection.close("as if the process were gone")
        await eventually(lambda: watchers(partition) == 0)

    with_broker(work)


# Over real connections


class Overheard:
    """What a broker asks of the leaders that it follows, and is answered."""

    def __init__(self, broker: Broker) -> None:
        self.exchanges: list[tuple[Any, Any]] = []
        ask = broker.peers.ask

        async def overheard(node_id: int, lane: Lane, *request: Any, **options: Any) -> Any:
            answer = await ask(node_id, lane, *request, **options)
            if lane is Lane.REPLICAS:
                self.exchanges.append((READ(request[-1], 0)[0], answer))
            return answer

        broker.peers.ask = overheard  # type: ignore[method-assign]

    def asked(self, since: int = 0) -> set[Key]:
        return {
            (topic.topic_id, partition.partition)
            for request, _ in self.exchanges[since:]
            for topic in request.topics
            for partition in topic.partitions
        }

    def left(self, since: int = 0) -> set[Key]:
        """Out of the session by the follower's word, or by the leader's if that heard of it first."""
        forgotten = {
            (topic.topic_id, index)
            for request, _ in self.exchanges[since:]
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        }
        put_out = {
            (topic.topic_id, found.partition_index)
            for _, answer in self.exchanges[since:]
            for topic in answer.responses
            for found in topic.partitions
            if found.error_code in NOT_HERE
        }
        return forgotten | put_out

    def full_fetches(self, since: int = 0) -> int:
        return sum(request.session_epoch == 0 for request, _ in self.exchanges[since:])

    @property
    def is_quiet(self) -> bool:
        """The last exchange carried no partition, either way."""
        if not self.exchanges:
            return False
        request, answer = self.exchanges[-1]
        return not request.topics and not answer.responses


async def create_replicated(
    cluster: SmallCluster, client: InProcess, count: int, name: str = "t"
) -> list[Partition]:
    """As node 2 follows them."""
    body = {"topics": [{"name": name, "num_partitions": count, "replication_factor": 2}]}
    answer = await client.ask(CREATE_TOPICS, 7, body)
    assert answer.topics[0].error_code is OK

    def followed() -> list[Partition]:
        there = [cluster.other.partitions.get(name, index) for index in range(count)]
        return [each for each in there if each is not None and each.follower is not None]

    def led() -> list[Partition]:
        there = [cluster.controller.partitions.get(name, index) for index in range(count)]
        return [each for each in there if each is not None and each.is_leader]

    await eventually(lambda: len(followed()) == len(led()) == count // 2)
    return followed()


def test_what_a_follower_and_its_leader_do_not_say() -> None:
    async def work(cluster: SmallCluster, client: InProcess) -> None:
        overheard = Overheard(cluster.other)
        followed = await create_replicated(cluster, client, 10)
        await eventually(lambda: overheard.asked() >= {key_of(each) for each in followed})
        await eventually(lambda: overheard.is_quiet)
        since = len(overheard.exchanges)
        await eventually(lambda: len(overheard.exchanges) >= since + 3)
        assert overheard.asked(since) == set()
        assert not any(answer.responses for _, answer in overheard.exchanges[since:])
        busy = cluster.controller.partitions.require("t", followed[0].index)
        await append(busy)
        await eventually(lambda: busy.high_watermark == 1 == followed[0].high_watermark)
        assert overheard.asked(since) == {key_of(busy)}
        assert overheard.full_fetches(since) == 0

    with_cluster(work)


def test_a_topic_that_is_deleted_and_created_again_leaves_and_joins() -> None:
    async def work(cluster: SmallCluster, client: InProcess) -> None:
        overheard = Overheard(cluster.other)
        await create_replicated(cluster, client, 4, "another")
        old = {key_of(each) for each in await create_replicated(cluster, client, 4)}
        await eventually(lambda: overheard.asked() >= old and overheard.is_quiet)
        since = len(overheard.exchanges)
        answer = await client.ask(DELETE_TOPICS, 5, {"topic_names": ["t"], "timeout": timedelta(seconds=5)})
        assert answer.responses[0].error_code is OK
        await eventually(lambda: overheard.left(since) == old)
        new = {key_of(each) for each in await create_replicated(cluster, client, 4)}
        assert not new & old
        await eventually(lambda: overheard.asked(since) >= new and overheard.is_quiet)
        assert not overheard.asked(since) & old
        followed = cluster.other.partitions
        busy = next(each for each in cluster.controller.partitions if each.topic == "t" and each.is_leader)
        await append(busy)
        await eventually(lambda: followed.require("t", busy.index).high_watermark == 1)

    with_cluster(work)


def test_a_connection_that_broke_between_two_fetches() -> None:
    async def work(cluster: SmallCluster, client: InProcess) -> None:
        overheard = Overheard(cluster.other)
        followed = await create_replicated(cluster, client, 4)
        wanted = {key_of(each) for each in followed}
        await eventually(lambda: overheard.asked() >= wanted and overheard.is_quiet)
        since = len(overheard.exchanges)
        _, connection = cluster.other.peers._connections[(1, Lane.REPLICAS)]
        connection.is_closed = True  # the next fetch finds out, and goes over another one
        await eventually(lambda: overheard.full_fetches(since) > 0 and overheard.is_quiet)
        errors = [answer.error_code for _, answer in overheard.exchanges[since:]]
        assert ErrorCode.fetch_session_id_not_found in errors
        assert overheard.asked(since) >= wanted

    with_cluster(work)


def test_a_leader_that_was_started_again_gets_a_full_fetch() -> None:
    async def work(cluster: SmallCluster, client: InProcess) -> None:
        overheard = Overheard(cluster.other)
        followed = await create_replicated(cluster, client, 4)
        wanted = {key_of(each) for each in followed}
        await eventually(lambda: overheard.asked() >= wanted and overheard.is_quiet)
        await fence(cluster.other, cluster.controller)  # so that it is not elected meanwhile
        before = cluster.controller
        before.failure.set_result(RuntimeError("it does not ask for leave"))
        await before.stop()
        since = len(overheard.exchanges)
        cluster.controller = Broker(before.config, before.storage)
        await cluster.controller.start()
        await eventually(lambda: overheard.asked(since) >= wanted and overheard.is_quiet)
        assert overheard.full_fetches(since) > 0
        busy = cluster.controller.partitions.require("t", followed[0].index)
        await append(busy)
        await eventually(lambda: followed[0].log.log_end_offset == 1)

    with_cluster(work)


async def fence(broker: Broker, controller: Broker) -> None:
    """A broker that sends no heartbeats any more, for want of a task that does it."""
    assert broker.lifecycle._task is not None
    broker.lifecycle._task.cancel()
    broker.failure.set_result(RuntimeError("it need not ask for leave"))
    await eventually(lambda: controller.controller.image.brokers[broker.config.node_id].fenced)
