"""Transactions with aiokafka, as its users write them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, ProducerFenced

from tests.support.raw import RawClient, make_batch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

TIMEOUT = 20.0


@pytest.fixture
def topic(raw: RawClient, topic: str) -> str:
    raw.create_topic(topic, partitions=2)
    return topic


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, TIMEOUT))


def transactional(bootstrap: str, topic: str, **options: object) -> AIOKafkaProducer:
    """Producers of one transactional id, that of the test."""
    return AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic, **options)


async def read(
    bootstrap: str, topic: str, isolation: str = "read_committed", partition: int = 0
) -> list[bytes | None]:
    """What a reader of that kind finds in a partition, from its start to where it has to stop."""
    where = TopicPartition(topic, partition)
    found = []
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation) as consumer:
        consumer.assign([where])
        await consumer.seek_to_beginning(where)
        end = (await consumer.end_offsets([where]))[where]
        while await consumer.position(where) < end:
            batches = await consumer.getmany(timeout_ms=200)
            found += [each.value for each in batches.get(where, ())]
    return found


async def until(ask: Callable[[], Awaitable[object]], expected: object) -> None:
    """Every question is one to a broker, and `run` has the deadline."""
    while await ask() != expected:
        pass


async def send(producer: AIOKafkaProducer, topic: str, *values: bytes, partition: int = 0) -> None:
    for value in values:
        await producer.send_and_wait(topic, value, partition=partition)


async def fail_after_sending(producer: AIOKafkaProducer, topic: str) -> None:
    async with producer.transaction():
        await send(producer, topic, b"x")
        raise AssertionError("not this one")


def test_commit_and_abort(bootstrap: str, topic: str) -> None:
    async def scenario() -> None:
        async with transactional(bootstrap, topic) as producer:
            async with producer.transaction():
                await send(producer, topic, b"a", b"b")
                await send(producer, topic, b"c", partition=1)
                assert await read(bootstrap, topic) == []
                assert await read(bootstrap, topic, "read_uncommitted") == [b"a", b"b"]
            await until(lambda: read(bootstrap, topic), [b"a", b"b"])
            await until(lambda: read(bootstrap, topic, partition=1), [b"c"])
            with pytest.raises(AssertionError, match="not this one"):
                await fail_after_sending(producer, topic)
            async with producer.transaction():
                await send(producer, topic, b"d")
            await until(lambda: read(bootstrap, topic), [b"a", b"b", b"d"])
            assert await read(bootstrap, topic, "read_uncommitted") == [b"a", b"b", b"x", b"d"]

    run(scenario())


def test_consume_process_produce(raw: RawClient, bootstrap: str, topic: str, group: str) -> None:
    """Positions count with the messages that were made of what is before them, or not at all."""
    raw.produce(topic, make_batch([b"1", b"2", b"3"]), partition=1)

    async def scenario() -> None:
        where = TopicPartition(topic, 1)
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        async with transactional(bootstrap, topic) as producer, consumer:
            message = await consumer.getone()
            for is_commit in (False, True):
                await producer.begin_transaction()
                await send(producer, topic, b"of " + message.value)
                await producer.send_offsets_to_transaction({where: message.offset + 1}, group)
                assert await consumer.committed(where) is None
                await (producer.commit_transaction() if is_commit else producer.abort_transaction())
            await until(lambda: consumer.committed(where), 1)
        await until(lambda: read(bootstrap, topic), [b"of 1"])

    run(scenario())


def test_a_second_producer_fences_the_first(bootstrap: str, topic: str) -> None:
    async def scenario() -> None:
        async with transactional(bootstrap, topic) as first, transactional(bootstrap, topic) as idle:
            del idle  # the last of them owns the id from here on
            with pytest.raises(ProducerFenced):
                async with first.transaction():
                    await send(first, topic, b"of the first")
        await until(lambda: read(bootstrap, topic), [])

    run(scenario())


def test_an_open_transaction_ends_with_its_owner(bootstrap: str, topic: str) -> None:
    async def scenario() -> None:
        async with transactional(bootstrap, topic) as first:
            await first.begin_transaction()
            await send(first, topic, b"of the first")
            async with transactional(bootstrap, topic) as second, second.transaction():
                await send(second, topic, b"of the second")
            with pytest.raises(ProducerFenced):
                await first.commit_transaction()
        await until(lambda: read(bootstrap, topic), [b"of the second"])

    run(scenario())


def test_positions_of_one_that_was_fenced(bootstrap: str, topic: str, group: str) -> None:
    async def scenario() -> None:
        where = TopicPartition(topic, 0)
        async with transactional(bootstrap, topic) as first:
            await first.begin_transaction()
            await first.send_offsets_to_transaction({where: 1}, group)
            async with transactional(bootstrap, topic):  # the owner from here on
                with pytest.raises(ProducerFenced):
                    await first.send_offsets_to_transaction({where: 2}, group)
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
            assert await consumer.committed(where) is None

    run(scenario())


def test_one_that_takes_too_long_is_aborted(raw: RawClient, bootstrap: str, topic: str) -> None:
    async def scenario() -> None:
        async with transactional(bootstrap, topic, transaction_timeout_ms=1_000) as late:
            await late.begin_transaction()
            await send(late, topic, b"late")
            raw.produce(topic, make_batch([b"after"]))
            await until(lambda: read(bootstrap, topic), [b"after"])
            with pytest.raises(KafkaError):
                await late.commit_transaction()
        async with transactional(bootstrap, topic) as again, again.transaction():
            await send(again, topic, b"again")
        await until(lambda: read(bootstrap, topic), [b"after", b"again"])

    run(scenario())


def test_many_transactions_in_a_row(bootstrap: str, topic: str) -> None:
    async def scenario() -> None:
        async with transactional(bootstrap, topic) as producer:
            for number in range(9):
                await producer.begin_transaction()
                await producer.send(topic, b"%d" % number, partition=0)
                end = producer.abort_transaction if number % 3 == 2 else producer.commit_transaction
                await end()
        await until(lambda: read(bootstrap, topic), [b"%d" % each for each in range(9) if each % 3 != 2])

    run(scenario())
