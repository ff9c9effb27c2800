"""The gateway's reader against real brokers: what it finds, what it costs them, and what it survives."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from penstock.gateway.kafka.errors import (
    KafkaUnavailableError,
    OffsetOutOfRangeError,
    TopicRecreatedError,
    UnknownPartitionError,
    UnknownTopicError,
)
from penstock.gateway.kafka.reader import LogReader
from penstock.gateway.kafka.reader_limits import ReaderLimits
from penstock.kafka.records import Offsets, ReadRecord
from tests.support.broker import BrokerProcess
from tests.support.cluster import RACKS
from tests.support.ports import free_port
from tests.support.topics import add_partitions, create_topic, delete_records, delete_topic, fill
from tests.support.wait import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.support.cluster import Cluster

STEP_S_MAX = 30.0 * PATIENCE


def reading(
    bootstrap: str,
    body: Callable[[LogReader], Awaitable[None]],
    *,
    rack: str | None = None,
    limits: ReaderLimits | None = None,
) -> None:
    async def run() -> None:
        reader = LogReader(bootstrap, rack=rack, limits=limits)
        try:
            async with asyncio.timeout(4 * STEP_S_MAX):
                await body(reader)
        finally:
            await reader.close()

    asyncio.run(run())


async def collect(reader: LogReader, topic: str, offset: int, count: int) -> list[ReadRecord]:
    """The next records of partition 0."""
    found: list[ReadRecord] = []
    async with aclosing(reader.follow(topic, 0, offset)) as records:
        async for some in records:
            found += some
            if len(found) >= count:
                return found
    raise AssertionError("a follower never ends")


def numbered(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def fetches_of(broker: BrokerProcess) -> int:
    """How many fetches the broker has answered."""
    with urllib.request.urlopen(f"{broker.http}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    found = re.search(r'^penstock_requests_total\{api="fetch"\} (\d+)$', text, re.MULTILINE)
    return int(found[1]) if found else 0


def test_everything_from_any_offset(file_broker: BrokerProcess) -> None:
    create_topic(file_broker.bootstrap, "plain")
    fill(
        file_broker.bootstrap, "plain", numbered(0, 2_000), key=b"k", headers=[("h", b"1")], timestamp=12_345
    )

    async def body(reader: LogReader) -> None:
        assert await reader.partitions("plain") == [0]
        assert await reader.offsets("plain", 0) == Offsets(0, 2_000)
        found: list[ReadRecord] = []
        offset = 137
        while offset < 2_000:
            fetched = await reader.fetch("plain", 0, offset, max_bytes=1_000)
            assert fetched.next_offset > offset
            found += fetched.records
            offset = fetched.next_offset
        assert [record.value for record in found] == numbered(137, 1_863)
        assert found[0] == ReadRecord(0, 137, 12_345, b"k", b"137", (("h", b"1"),))
        at_end = await reader.fetch("plain", 0, 2_000)
        assert (at_end.records, at_end.next_offset, at_end.high_watermark) == ([], 2_000, 2_000)

    reading(file_broker.bootstrap, body)


def test_what_is_not_there_is_told_at_once(file_broker: BrokerProcess) -> None:
    create_topic(file_broker.bootstrap, "short")
    fill(file_broker.bootstrap, "short", numbered(0, 10))
    delete_records(file_broker.bootstrap, "short", 4)

    async def body(reader: LogReader) -> None:
        for offset in (3, 11):
            with pytest.raises(OffsetOutOfRangeError) as caught:
                await reader.fetch("short", 0, offset)
            assert (caught.value.start, caught.value.end) == (4, 10)
        with pytest.raises(UnknownPartitionError):
            await reader.fetch("short", 7, 0)
        with pytest.raises(UnknownTopicError):
            await reader.partitions("nowhere")
        with pytest.raises(UnknownTopicError):
            await anext(reader.follow("nowhere", 0, 0))

    reading(file_broker.bootstrap, body)


def test_a_long_poll_holds_up_nobody(file_broker: BrokerProcess) -> None:
    create_topic(file_broker.bootstrap, "quiet")
    fill(file_broker.bootstrap, "quiet", numbered(0, 5))

    async def body(reader: LogReader) -> None:
        polls = [asyncio.create_task(reader.fetch("quiet", 0, 5, wait_ms=20_000)) for _ in range(5)]
        await asyncio.sleep(0)
        for _ in range(50):
            fetched = await asyncio.wait_for(reader.fetch("quiet", 0, 0), 15)
            assert len(fetched.records) == 5
        assert not any(poll.done() for poll in polls)
        await asyncio.to_thread(fill, file_broker.bootstrap, "quiet", [b"news"])
        for poll in polls:
            assert [record.value for record in (await poll).records] == [b"news"]

    reading(file_broker.bootstrap, body)


def test_thousands_of_followers_cost_one_fetch(file_broker: BrokerProcess) -> None:
    create_topic(file_broker.bootstrap, "crowd")
    fill(file_broker.bootstrap, "crowd", numbered(0, 10))
    count, rounds = 2_000, 8

    async def body(reader: LogReader) -> None:
        arrived = [asyncio.Event() for _ in range(count)]

        async def follow(place: int) -> list[bytes | None]:
            values: list[bytes | None] = []
            async with aclosing(reader.follow("crowd", 0, 10)) as records:
                async for some in records:
                    values += [record.value for record in some]
                    arrived[place].set()
                    if len(values) == rounds:
                        return values
            raise AssertionError

        first = asyncio.create_task(follow(0))
        await asyncio.to_thread(fill, file_broker.bootstrap, "crowd", [b"0"])
        await arrived[0].wait()  # the tail has what the others need
        others = [asyncio.create_task(follow(place)) for place in range(1, count)]
        for each in arrived:
            await each.wait()
        before = await asyncio.to_thread(fetches_of, file_broker)
        for number in range(1, rounds):
            await asyncio.to_thread(fill, file_broker.bootstrap, "crowd", [b"%d" % number])
        for follower in (first, *others):
            assert await follower == numbered(0, rounds)
        cost = await asyncio.to_thread(fetches_of, file_broker) - before
        assert 0 < cost <= 2 * rounds

    reading(file_broker.bootstrap, body)


def test_a_slow_follower_falls_back_to_reading_by_itself(file_broker: BrokerProcess) -> None:
    create_topic(file_broker.bootstrap, "slow")

    async def body(reader: LogReader) -> None:
        async with aclosing(reader.follow("slow", 0, 0)) as slow:
            fast = asyncio.create_task(collect(reader, "slow", 0, 600))
            await asyncio.to_thread(fill, file_broker.bootstrap, "slow", [b"first"])
            found = await anext(slow)
            for _ in range(6):  # far more than the tail keeps
                await asyncio.to_thread(fill, file_broker.bootstrap, "slow", [b"x" * 500] * 100)
            assert len(await fast) >= 600
            while len(found) < 601:
                found = found + await anext(slow)
        assert [record.offset for record in found] == list(range(601))

    reading(file_broker.bootstrap, body, limits=ReaderLimits(tail_bytes_max=20_000, fetch_bytes_max=10_000))


def test_a_topic_that_is_created_again_is_another_topic(file_broker: BrokerProcess) -> None:
    create_topic(file_broker.bootstrap, "again")
    fill(file_broker.bootstrap, "again", numbered(0, 10))

    async def body(reader: LogReader) -> None:
        async with aclosing(reader.follow("again", 0, 0)) as follower:
            found = await anext(follower)
            while len(found) < 10:
                found = found + await anext(follower)
            waiting = asyncio.ensure_future(anext(follower))
            await asyncio.to_thread(delete_topic, file_broker.bootstrap, "again")
            await asyncio.to_thread(create_topic, file_broker.bootstrap, "again")
            await asyncio.to_thread(fill, file_broker.bootstrap, "again", numbered(0, 30))
            with pytest.raises(TopicRecreatedError) as caught:
                await asyncio.wait_for(waiting, STEP_S_MAX)
            assert caught.value.start == 0
        new = await collect(reader, "again", 0, 30)
        assert [record.value for record in new] == numbered(0, 30)

    reading(file_broker.bootstrap, body)


def test_a_topic_that_is_deleted_ends_its_followers(file_broker: BrokerProcess) -> None:
    create_topic(file_broker.bootstrap, "gone")

    async def body(reader: LogReader) -> None:
        async with aclosing(reader.follow("gone", 0, 0)) as follower:
            waiting = asyncio.ensure_future(anext(follower))
            await reader.offsets("gone", 0)
            await asyncio.to_thread(delete_topic, file_broker.bootstrap, "gone")
            with pytest.raises(UnknownTopicError):
                await asyncio.wait_for(waiting, STEP_S_MAX)

    reading(file_broker.bootstrap, body)


def test_new_partitions_are_found(file_broker: BrokerProcess) -> None:
    create_topic(file_broker.bootstrap, "wider")

    async def body(reader: LogReader) -> None:
        assert await reader.partitions("wider") == [0]
        await asyncio.to_thread(add_partitions, file_broker.bootstrap, "wider", 3)
        assert await reader.offsets("wider", 2) == Offsets(0, 0)
        assert await reader.partitions("wider") == [0, 1, 2]

    reading(file_broker.bootstrap, body)


def test_no_broker_is_an_error_after_the_limit() -> None:
    async def body(reader: LogReader) -> None:
        with pytest.raises(KafkaUnavailableError, match="connection refused"):
            await reader.partitions("t")
        with pytest.raises(KafkaUnavailableError, match="connection refused"):
            await reader.fetch("t", 0, 0)

    reading(f"127.0.0.1:{free_port()}", body, limits=ReaderLimits(unavailable_s_max=0.2))


def test_a_restart_is_a_delay(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        create_topic(broker.bootstrap, "t")
        fill(broker.bootstrap, "t", numbered(0, 10))

        async def body(reader: LogReader) -> None:
            async with aclosing(reader.follow("t", 0, 0)) as follower:
                assert len(await anext(follower)) == 10
                waiting = asyncio.ensure_future(anext(follower))
                await asyncio.to_thread(broker.kill)
                offsets = asyncio.create_task(reader.offsets("t", 0))
                await asyncio.to_thread(broker.start)
                assert await offsets == Offsets(0, 10)
                await asyncio.to_thread(fill, broker.bootstrap, "t", [b"after"])
                assert [record.value for record in await waiting] == [b"after"]

        reading(broker.bootstrap, body)


def test_the_death_of_a_leader_is_a_delay(shared_cluster: Cluster, topic: str) -> None:
    """Followers see every acknowledged message once and in order while leaders are killed."""
    create_topic(shared_cluster.bootstrap, topic)
    shared_cluster.wait_in_sync(topic, (1, 2, 3))
    total = 300

    async def body(reader: LogReader) -> None:
        followers = [asyncio.create_task(collect(reader, topic, 0, total)) for _ in range(20)]
        for part in range(3):
            await asyncio.to_thread(
                fill_patiently, shared_cluster.bootstrap, topic, numbered(part * 100, 100)
            )
            if part < 2:
                leader = shared_cluster.leader_of(topic)
                leader.kill()
                await asyncio.to_thread(leader.start)
                await asyncio.to_thread(shared_cluster.wait_in_sync, topic, (1, 2, 3))
        for follower in followers:
            assert [record.value for record in await follower] == numbered(0, total)

    reading(shared_cluster.bootstrap, body)


def fill_patiently(bootstrap: str, topic: str, values: list[bytes]) -> None:
    """As `fill`, with the patience of a client that sees an election."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(STEP_S_MAX) == 0


def test_a_follower_in_the_same_rack_is_read_and_its_death_is_a_delay(
    shared_cluster: Cluster, topic: str
) -> None:
    create_topic(shared_cluster.bootstrap, topic)
    shared_cluster.wait_in_sync(topic, (1, 2, 3))
    leader = shared_cluster.leader_of(topic)
    near = next(node for node in shared_cluster.brokers.values() if node is not leader)
    rack = RACKS[near.id - 1]

    async def body(reader: LogReader) -> None:
        followers = [asyncio.create_task(collect(reader, topic, 0, 100)) for _ in range(5)]
        await asyncio.to_thread(fill_patiently, shared_cluster.bootstrap, topic, numbered(0, 50))
        # Followers learn a little later than their leader what is committed.
        assert (await reader.fetch(topic, 0, 0, wait_ms=10_000)).records
        before = await asyncio.to_thread(fetches_of, near)
        for _ in range(20):
            assert (await reader.fetch(topic, 0, 0)).records
        assert await asyncio.to_thread(fetches_of, near) - before >= 20
        near.kill()
        await asyncio.to_thread(fill_patiently, shared_cluster.bootstrap, topic, numbered(50, 50))
        for follower in followers:
            assert [record.value for record in await follower] == numbered(0, 100)

    reading(shared_cluster.bootstrap, body, rack=rack)
