"""A transactional id that is used again after the broker was killed in the middle of a transaction."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaProducer
from kafka import KafkaProducer

from penstock.types import ErrorCode
from tests.support.raw import INIT_PRODUCER_ID, RawClient
from tests.support.transactions import read, send, transactional
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from tests.support.broker import BrokerProcess

TIMEOUT = 20.0


def with_confluent(bootstrap: str, topic: str, value: bytes) -> None:
    producer = transactional(bootstrap, "id")
    producer.begin_transaction()
    producer.produce(topic, value)
    producer.commit_transaction(TIMEOUT)


def with_kafka_python(bootstrap: str, topic: str, value: bytes) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id="id")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, value)
    producer.commit_transaction()
    producer.close()


def with_aiokafka(bootstrap: str, topic: str, value: bytes) -> None:
    async def transact() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="id")
        async with asyncio.timeout(TIMEOUT), producer, producer.transaction():
            await producer.send_and_wait(topic, value)

    asyncio.run(transact())


def test_an_id_is_used_again(broker: BrokerProcess, topic: str) -> None:
    """What was committed stays, what was open is aborted when its id has a new owner, and epochs go on."""
    with RawClient(broker.bootstrap) as client:
        client.create_topic(topic)
    with_confluent(broker.bootstrap, topic, b"before")
    left_open = transactional(broker.bootstrap, "id")
    left_open.begin_transaction()
    send(left_open, topic, b"open")
    broker.restart(clean=False)
    for transact in (with_kafka_python, with_aiokafka, with_confluent):
        transact(broker.bootstrap, topic, transact.__name__.encode())
    expected = [b"before", b"with_kafka_python", b"with_aiokafka", b"with_confluent"]
    wait_until(lambda: read(broker.bootstrap, topic) == expected, "all but the open one")
    with RawClient(broker.bootstrap) as client:
        assert next_epoch(client) > len(expected)


def next_epoch(client: RawClient) -> int:
    body: dict[str, Any] = {"transactional_id": "id", "transaction_timeout": timedelta(minutes=1)}
    answer = client.request(INIT_PRODUCER_ID, 4, body)
    assert answer.error_code is ErrorCode.none
    return int(answer.producer_epoch)
