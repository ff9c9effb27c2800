"""Positions, committed offsets and producing with aiokafka."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError
from aiokafka.structs import OffsetAndMetadata

from tests.support.raw import RECENT_MS, RawClient, make_batch
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Coroutine

START = RECENT_MS
TIMEOUT = 20.0


@pytest.fixture
def topic(raw: RawClient, topic: str) -> str:
    """Two partitions; the first with "0" … "9" in batches of two, ten seconds apart."""
    raw.create_topic(topic, partitions=2)
    for index in range(0, 10, 2):
        batch = make_batch(
            [b"%d" % index, b"%d" % (index + 1)], timestamp=START + index * 10_000, step_ms=10_000
        )
        raw.produce(topic, batch)
    return topic


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, TIMEOUT))


async def read(consumer: AIOKafkaConsumer, count: int) -> list[bytes | None]:
    return [(await consumer.getone()).value for _ in range(count)]


def test_seek_and_positions(bootstrap: str, topic: str) -> None:
    async def scenario() -> None:
        partition = TopicPartition(topic, 0)
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
            consumer.assign([partition, TopicPartition(topic, 1)])
            await consumer.seek_to_beginning(partition)
            assert await read(consumer, 3) == [b"0", b"1", b"2"]
            consumer.seek(partition, 7)
            assert await read(consumer, 2) == [b"7", b"8"]
            assert await consumer.position(partition) == 9
            await consumer.seek_to_end(partition)
            assert await consumer.position(partition) == 10
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 10}

    run(scenario())


def test_seek_by_time(bootstrap: str, topic: str) -> None:
    async def scenario() -> None:
        partition = TopicPartition(topic, 0)
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:

            async def offset_at(timestamp: int) -> tuple[int, int] | None:
                found = (await consumer.offsets_for_times({partition: timestamp}))[partition]
                return None if found is None else (found.offset, found.timestamp)

            assert await offset_at(START - 1) == (0, START)
            assert await offset_at(START + 1) == (1, START + 10_000)
            assert await offset_at(START + 30_000) == (3, START + 30_000)
            assert await offset_at(START + 90_001) is None

    run(scenario())


def test_pause_and_resume(raw: RawClient, bootstrap: str, topic: str) -> None:
    async def scenario() -> None:
        first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([first, second])
            await consumer.seek_to_beginning()
            assert (await read(consumer, 10))[-1] == b"9"
            consumer.pause(first)
            raw.produce(topic, make_batch([b"paused"]), partition=0)
            raw.produce(topic, make_batch([b"flows"]), partition=1)
            assert await read(consumer, 1) == [b"flows"]
            assert await consumer.getmany(timeout_ms=300) == {}
            consumer.resume(first)
            assert await read(consumer, 1) == [b"paused"]

    run(scenario())


def test_committed_offsets_and_metadata(bootstrap: str, topic: str, group: str) -> None:
    async def scenario() -> None:
        partition = TopicPartition(topic, 0)
        options = {"bootstrap_servers": bootstrap, "group_id": group, "enable_auto_commit": False}
        async with AIOKafkaConsumer(**options) as consumer:
            consumer.assign([partition])
            assert await consumer.committed(partition) is None
            await consumer.commit({partition: OffsetAndMetadata(4, "said ü")})
        async with AIOKafkaConsumer(**options, auto_offset_reset="earliest") as again:
            again.subscribe([topic])
            assert await read(again, 2) == [b"4", b"5"]
            assert await again.committed(partition) == 4

    run(scenario())


def test_offset_out_of_range(bootstrap: str, topic: str) -> None:
    async def scenario() -> None:
        partition = TopicPartition(topic, 0)
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="none") as consumer:
            consumer.assign([partition])
            consumer.seek(partition, 1_000)
            with pytest.raises(OffsetOutOfRangeError):
                await consumer.getone()

    run(scenario())


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_acks(raw: RawClient, bootstrap: str, topic: str, acks: int | str) -> None:
    async def scenario() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks=acks) as producer:
            sent = [await producer.send(topic, b"%d" % index, partition=1) for index in range(500)]
            await asyncio.gather(*sent)

    run(scenario())
    wait_until(lambda: raw.end_offset(topic, partition=1) == 500, "all messages")


def test_messages_over_the_limit_are_refused(raw: RawClient, bootstrap: str, topic: str) -> None:
    limited = f"{topic}-limited"
    raw.create_topic(limited, configs={"max.message.bytes": "20000"})

    async def scenario() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            assert (await producer.send_and_wait(limited, bytes(19_000))).offset == 0
            with pytest.raises(MessageSizeTooLargeError):
                await producer.send_and_wait(limited, bytes(21_000))

    run(scenario())
    assert raw.end_offset(limited) == 1


def test_an_idempotent_producer(raw: RawClient, bootstrap: str, topic: str) -> None:
    async def scenario() -> None:
        options = {"enable_idempotence": True, "max_batch_size": 200}
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, **options) as producer:
            sent = [await producer.send(topic, b"%d" % index, partition=1) for index in range(1_000)]
            acknowledged = await asyncio.gather(*sent)
            assert [metadata.offset for metadata in acknowledged] == list(range(1_000))

    run(scenario())
    assert raw.end_offset(topic, partition=1) == 1_000
