"""Administration with aiokafka's AIOKafkaAdminClient."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.structs import OffsetAndMetadata

from tests.support.raw import RawClient, make_batch
from tests.support.wait import POLL_SECONDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

TIMEOUT = 20.0


def run(bootstrap: str, scenario: Callable[[AIOKafkaAdminClient], Coroutine[Any, Any, None]]) -> None:
    async def with_admin() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            async with asyncio.timeout(TIMEOUT):
                await scenario(admin)
        finally:
            await admin.close()

    asyncio.run(with_admin())


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """`scenario` has a deadline as a whole."""
    done = False
    while not done:
        await asyncio.sleep(POLL_SECONDS)
        done = await condition()


def test_topics_and_partitions(bootstrap: str, topic: str) -> None:
    async def scenario(admin: AIOKafkaAdminClient) -> None:
        async def is_listed() -> bool:
            return topic in await admin.list_topics()

        async def has_four_partitions() -> bool:
            [described] = await admin.describe_topics([topic])
            return len(described["partitions"]) == 4

        async def is_gone() -> bool:
            return not await is_listed()

        created = await admin.create_topics([NewTopic(topic, 2, 1)])
        assert [error[1] for error in created.topic_errors] == [0]
        await until(is_listed)
        again = await admin.create_topics([NewTopic(topic, 2, 1)])
        assert [error[1] for error in again.topic_errors] == [36]
        await admin.create_partitions({topic: NewPartitions(4)})
        await until(has_four_partitions)
        await admin.delete_topics([topic])
        await until(is_gone)

    run(bootstrap, scenario)


def test_configs(bootstrap: str, topic: str) -> None:
    async def scenario(admin: AIOKafkaAdminClient) -> None:
        async def retention() -> str:
            [answer] = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
            [(error_code, _, _, _, entries)] = answer.resources
            assert error_code == 0
            return {entry[0]: entry[1] for entry in entries}["retention.ms"]

        async def is_changed() -> bool:
            return await retention() == "2000"

        await admin.create_topics([NewTopic(topic, 1, 1, topic_configs={"retention.ms": "1000"})])
        assert await retention() == "1000"
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "2000"})
        await admin.alter_configs([resource])
        await until(is_changed)

    run(bootstrap, scenario)


def test_delete_records(raw: RawClient, bootstrap: str, topic: str) -> None:
    raw.create_topic(topic)
    raw.produce(topic, make_batch([b"a", b"b", b"c"]))
    partition = TopicPartition(topic, 0)

    async def scenario(admin: AIOKafkaAdminClient) -> None:
        assert await admin.delete_records({partition: RecordsToDelete(2)}) == {partition: 2}

    run(bootstrap, scenario)
    assert raw.list_offset(topic, -2).offset == 2


def test_groups(raw: RawClient, bootstrap: str, topic: str, group: str) -> None:
    raw.create_topic(topic)
    partition = TopicPartition(topic, 0)

    async def scenario(admin: AIOKafkaAdminClient) -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False)
        async with consumer:
            consumer.assign([partition])
            await consumer.commit({partition: OffsetAndMetadata(7, "note")})
        assert group in [listed[0] for listed in await admin.list_consumer_groups()]
        offsets = await admin.list_consumer_group_offsets(group)
        assert offsets == {partition: OffsetAndMetadata(7, "note")}
        [described] = await admin.describe_consumer_groups([group])
        assert described.groups[0][:3] == (0, group, "Empty")

    run(bootstrap, scenario)


def test_describe_cluster(bootstrap: str) -> None:
    async def scenario(admin: AIOKafkaAdminClient) -> None:
        cluster = await admin.describe_cluster()
        [broker] = cluster["brokers"]
        assert f"{broker['host']}:{broker['port']}" == bootstrap
        assert cluster["controller_id"] == broker["node_id"]

    run(bootstrap, scenario)
