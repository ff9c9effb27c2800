"""What a leader answers to a replica that fetches, and what it makes of that fetch."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from penstock.broker.handlers import load_handlers
from penstock.controller.metadata_log import METADATA_TOPIC_ID
from penstock.types import ErrorCode
from penstock.wire.batch import read_header
from penstock.wire.records import Record, encode_batch
from tests.unit.broker.in_process import InProcess, begin_epoch, with_broker

if TYPE_CHECKING:
    from penstock.broker.partition import Partition

API_VERSIONS, CREATE_TOPICS, FETCH, OFFSET_FETCH, ADD_PARTITIONS_TO_TXN = 18, 19, 1, 9, 24
DESCRIBE_LOG_DIRS = 35
NOT_LEADER, OK = ErrorCode.not_leader_or_follower, ErrorCode.none
LONG, AT_ONCE = timedelta(seconds=60), timedelta(0)
REPLICA_EPOCH = 5


async def create(client: InProcess, name: str = "t") -> Partition:
    """Led here, with broker 2 in sync."""
    body = {"topics": [{"name": name, "num_partitions": 1, "replication_factor": 1}]}
    await client.ask(CREATE_TOPICS, 7, body)
    partition = client.broker.partitions.require(name, 0)
    image = partition.image
    partition.apply(
        image._replace(replicas=(1, 2), isr=(1, 2), partition_epoch=image.partition_epoch + 1), live={1, 2}
    )
    await partition.settle()
    return partition


async def append(partition: Partition, count: int = 1) -> None:
    batch = encode_batch([Record(at, 1, None, b"v") for at in range(count)])
    partition.append(batch, read_header(batch))
    await partition.settle()


def asking(
    topic_id: UUID,
    offset: int,
    *,
    epoch: int = 0,
    last_epoch: int = 0,
    max_wait: timedelta = AT_ONCE,
    replica: tuple[int, int] = (2, REPLICA_EPOCH),
    **request: Any,
) -> dict[str, Any]:
    partition = {
        "partition": 0,
        "current_leader_epoch": epoch,
        "fetch_offset": offset,
        "last_fetched_epoch": last_epoch,
        "log_start_offset": 0,
        "partition_max_bytes": 1 << 20,
    }
    return {
        "replica_state": {"replica_id": replica[0], "replica_epoch": replica[1]},
        "max_wait": max_wait,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "topics": [{"topic_id": topic_id, "partitions": [partition]}],
    } | request


async def fetch(client: InProcess, body: dict[str, Any]) -> Any:
    """What is answered for the only partition."""
    responses = (await client.ask(FETCH, 17, body)).responses
    assert responses[0].topic_id == body["topics"][0]["topic_id"]
    return only(responses)


def only(responses: Any) -> Any:
    (topic,) = responses
    (found,) = topic.partitions
    return found


def test_a_fetch_gets_what_is_not_committed_and_the_next_one_commits_it() -> None:
    async def work(client: InProcess) -> None:
        partition = await create(client)
        await append(partition, 3)
        found = await fetch(client, asking(partition.topic_id, 0, last_epoch=-1))
        assert (found.error_code, found.high_watermark, found.log_start_offset) == (OK, 0, 0)
        assert read_header(bytes(found.records)).next_offset == 3
        assert partition.high_watermark == 0
        found = await fetch(client, asking(partition.topic_id, 3))
        assert (found.error_code, found.high_watermark, bytes(found.records or b"")) == (OK, 3, b"")
        assert partition.high_watermark == 3

    with_broker(work)


def test_who_must_not_be_given_records() -> None:
    async def work(client: InProcess) -> None:
        partition = await create(client)
        await append(partition, 2)
        begin_epoch(partition, 4)
        await append(partition, 2)
        topic_id = partition.topic_id

        async def error_of(*arguments: Any, **named: Any) -> ErrorCode:
            found = await fetch(client, asking(*arguments, **named))
            assert not found.records
            return found.error_code  # type: ignore[no-any-return]

        assert await error_of(UUID(int=99), 0) is ErrorCode.unknown_topic_id
        assert await error_of(topic_id, 4, epoch=3) is ErrorCode.fenced_leader_epoch
        assert await error_of(topic_id, 4, epoch=5) is ErrorCode.unknown_leader_epoch
        assert await error_of(topic_id, 4, epoch=4, last_epoch=5) is ErrorCode.unknown_leader_epoch
        assert await error_of(topic_id, 4, epoch=4, last_epoch=4, replica=(9, 1)) is NOT_LEADER
        assert partition.high_watermark == 0, "none of them has said what it has"
        assert await error_of(topic_id, 4, epoch=4, last_epoch=4) is OK
        assert partition.high_watermark == 4
        earlier = (2, REPLICA_EPOCH - 1)
        assert await error_of(topic_id, 4, epoch=4, last_epoch=4, replica=earlier) is NOT_LEADER
        partition.log.delete_records_before(2)
        assert await error_of(topic_id, 1, epoch=4, last_epoch=0) is ErrorCode.offset_out_of_range

    with_broker(work)


def test_a_log_that_parted_from_ours_hears_where() -> None:
    async def work(client: InProcess) -> None:
        partition = await create(client)
        await append(partition, 2)
        begin_epoch(partition, 4)
        await append(partition, 2)
        found = await fetch(client, asking(partition.topic_id, 3, epoch=4, last_epoch=0))
        assert (found.error_code, bytes(found.records or b"")) == (OK, b"")
        assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (0, 2)
        assert partition.high_watermark == 0, "a fetch of another log says nothing about ours"

    with_broker(work)


def test_a_partition_that_another_leads() -> None:
    async def work(client: InProcess) -> None:
        partition = await create(client)
        image = partition.image
        partition.apply(
            image._replace(leader=2, leader_epoch=1, partition_epoch=image.partition_epoch + 1), live={1, 2}
        )
        found = await fetch(client, asking(partition.topic_id, 0, epoch=1, last_epoch=-1))
        assert found.error_code is NOT_LEADER

    with_broker(work)


def test_a_fetch_waits_for_news() -> None:
    async def work(client: InProcess) -> None:
        partition = await create(client)
        begin = asking(partition.topic_id, 0, last_epoch=-1, max_wait=LONG, session_epoch=0)
        session_id = (await client.ask(FETCH, 17, begin)).session_id  # the first is told how things are

        def going_on(epoch: int, offset: int | None = None) -> asyncio.Task[Any]:
            body = asking(partition.topic_id, offset or 0, max_wait=LONG)
            if offset is None:
                body["topics"] = []
            body |= {"session_id": session_id, "session_epoch": epoch}
            return asyncio.create_task(client.ask(FETCH, 17, body))

        waiting = going_on(1)
        await asyncio.sleep(0.01)
        assert not waiting.done()
        await append(partition)
        assert only((await waiting).responses).records
        found = only((await going_on(2, 1)).responses)
        assert found.high_watermark == 1, "a higher high watermark is news"
        waiting = going_on(3)
        await asyncio.sleep(0.01)
        assert not waiting.done()
        begin_epoch(partition, 3)
        assert only((await waiting).responses).error_code is ErrorCode.fenced_leader_epoch

    with_broker(work)


def test_without_news_a_fetch_ends_in_time() -> None:
    async def work(client: InProcess) -> None:
        partition = await create(client)
        quiet = asking(partition.topic_id, 0, last_epoch=-1, max_wait=timedelta(milliseconds=30))
        for _ in range(2):
            found = await fetch(client, quiet)
            assert (found.error_code, bytes(found.records or b"")) == (OK, b"")

    with_broker(work)


def test_a_node_of_another_cluster() -> None:
    async def work(client: InProcess) -> None:
        partition = await create(client)
        body = asking(partition.topic_id, 0, last_epoch=-1)
        answer = await client.ask(FETCH, 17, body | {"cluster_id": "another"})
        assert (answer.error_code, answer.responses) == (ErrorCode.inconsistent_cluster_id, ())
        answer = await client.ask(FETCH, 17, body | {"cluster_id": "test-cluster"})
        assert answer.error_code is OK

    with_broker(work)


def test_the_metadata_log_is_fetched_the_same_way() -> None:
    async def work(client: InProcess) -> None:
        epoch = client.broker.controller.driver.core.epoch
        body = asking(METADATA_TOPIC_ID, 0, epoch=epoch, last_epoch=-1)
        found = await fetch(client, body)
        assert (found.error_code, found.current_leader.leader_id) == (OK, 1)
        assert bytes(found.records) == bytes(client.broker.controller.log.read(0))
        for partitions in ([], body["topics"][0]["partitions"] * 2):
            wrong = body | {"topics": [{"topic_id": METADATA_TOPIC_ID, "partitions": partitions}]}
            assert (await client.ask(FETCH, 17, wrong)).error_code is ErrorCode.invalid_request

    with_broker(work)


def test_what_nodes_say_to_each_other_is_not_told_to_clients() -> None:
    async def work(client: InProcess) -> None:
        answer = await client.ask(API_VERSIONS, 3, {})
        told = {each.api_key: each.max_version for each in answer.api_keys}
        assert told[FETCH] < 17
        assert told[ADD_PARTITIONS_TO_TXN] < 4
        assert told[OFFSET_FETCH] < 9
        assert told[DESCRIBE_LOG_DIRS] < 5
        internal = {each.key for each in load_handlers() if each.between_nodes}
        internal -= {FETCH, ADD_PARTITIONS_TO_TXN, OFFSET_FETCH, DESCRIBE_LOG_DIRS}
        assert {52, 53, 54, 56, 62, 63, 67} <= internal
        assert not internal & told.keys()

    with_broker(work)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"listeners": [], "log_dirs": [UUID(int=1)]},
        {"listeners": [{"name": "a", "host": "h", "port": 1}], "log_dirs": []},
        {"listeners": [{"name": "a", "host": "h", "port": 1}], "log_dirs": [UUID(int=1), UUID(int=2)]},
        {"listeners": [{"name": "a", "host": "h", "port": 1}] * 2, "log_dirs": [UUID(int=1)]},
    ],
)
def test_a_registration_that_lacks_something_is_refused(body: dict[str, Any]) -> None:
    async def work(client: InProcess) -> None:
        answer = await client.ask(62, 4, {"broker_id": 2, "incarnation_id": UUID(int=5)} | body)
        assert (answer.error_code, answer.broker_epoch) == (ErrorCode.invalid_request, -1)
        assert set(client.broker.controller.image.brokers) == {1}

    with_broker(work)
