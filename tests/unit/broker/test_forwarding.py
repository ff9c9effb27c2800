"""What is the active controller's business, asked of a broker that is not it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from penstock.broker.handlers import load_handlers
from penstock.types import ApiError, ErrorCode
from penstock.wire.broker_heartbeat import HeartbeatRequest
from penstock.wire.records import Record, encode_batch
from tests.unit.broker.in_process import InProcess, eventually
from tests.unit.broker.small_cluster import SmallCluster, with_cluster

if TYPE_CHECKING:
    from collections.abc import Awaitable

PRODUCE, METADATA, CREATE_TOPICS, DELETE_TOPICS, INIT_PRODUCER_ID = 0, 3, 19, 20, 22
FORWARDED = sorted((each for each in load_handlers() if each.forwarded), key=lambda each: each.key)
OK = ErrorCode.none


def topic(name: str, **more: Any) -> dict[str, Any]:
    return {"topics": [{"name": name, "num_partitions": 1, "replication_factor": 2} | more]}


def test_a_topic_is_created_through_any_broker_in_every_version() -> None:
    async def work(cluster: SmallCluster, client: InProcess) -> None:
        for version in next(each for each in FORWARDED if each.key == CREATE_TOPICS).versions:
            name = f"t{version}"
            answer = (await client.ask(CREATE_TOPICS, version, topic(name))).topics[0]
            assert (answer.name, answer.error_code) == (name, OK)
            again = (await client.ask(CREATE_TOPICS, version, topic(name))).topics[0]
            assert again.error_code is ErrorCode.topic_already_exists
            assert cluster.controller.controller.image.topics[name].partitions[0].replicas in ((1, 2), (2, 1))

    with_cluster(work)


def test_every_forwarded_request_has_an_answer_with_and_without_a_controller() -> None:
    async def work(cluster: SmallCluster, client: InProcess) -> None:
        def ask_all() -> list[Awaitable[Any]]:
            return [client.ask(each.key, version, {}) for each in FORWARDED for version in each.versions]

        for answer in ask_all():
            await answer
        await cluster.controller.stop()
        cluster.other.channel._wait_s = 0.5
        *_, refused = await asyncio.gather(*ask_all(), client.ask(CREATE_TOPICS, 7, topic("t")))
        assert refused.topics[0].error_code is ErrorCode.request_timed_out

    with_cluster(work)


def test_topics_that_a_client_names_are_created_by_the_controller() -> None:
    async def work(cluster: SmallCluster, client: InProcess) -> None:
        body = {"topics": [{"name": "t"}], "allow_auto_topic_creation": True}
        found = (await client.ask(METADATA, 12, body)).topics[0]
        assert (found.error_code, found.name) == (OK, "t")
        assert "t" in cluster.controller.controller.image.topics
        assert "t" in cluster.other.controller.image.topics

    with_cluster(work)


def test_internal_topics_are_created_once_whoever_asks_first() -> None:
    async def work(cluster: SmallCluster, _client: InProcess) -> None:
        configs = {"cleanup.policy": "compact"}
        found = await asyncio.gather(
            *(
                broker.channel.ensure_internal_topic("__consumer_offsets", 4, configs)
                for broker in (cluster.controller, cluster.other) * 3
            )
        )
        assert {each.topic_id for each in found} == {found[0].topic_id}
        assert len(found[0].partitions) == 4
        for broker in (cluster.controller, cluster.other):
            assert broker.controller.topic_config("__consumer_offsets").compact

    with_cluster(work)


def test_internal_topics_wait_for_a_broker_that_is_away() -> None:
    """It would never get a replica."""

    async def work(cluster: SmallCluster, _client: InProcess) -> None:
        await cluster.other.stop()
        await eventually(lambda: cluster.controller.controller.image.brokers[2].fenced)
        with pytest.raises(ApiError) as refused:
            await cluster.controller.channel.ensure_internal_topic("__consumer_offsets", 4, {})
        assert refused.value.code is ErrorCode.coordinator_not_available

    with_cluster(work)


def test_producer_ids_of_two_brokers_are_different() -> None:
    async def work(cluster: SmallCluster, client: InProcess) -> None:
        clients = (client, InProcess(cluster.controller))
        answers = [await each.ask(INIT_PRODUCER_ID, 4, {}) for each in clients * 2]
        assert {answer.error_code for answer in answers} == {OK}
        assert len({answer.producer_id for answer in answers}) == 4

    with_cluster(work)


def test_a_stale_broker_is_not_listened_to() -> None:
    async def work(cluster: SmallCluster, _client: InProcess) -> None:
        channel, epoch = cluster.other.channel, cluster.other.lifecycle.broker_epoch
        for call in (
            channel.heartbeat(HeartbeatRequest(2, epoch - 1, 100, want_shut_down=False)),
            channel.heartbeat(HeartbeatRequest(9, epoch, 100, want_shut_down=False)),
            channel.alter_partitions(2, epoch - 1, []),
        ):
            with pytest.raises(ApiError) as caught:
                await call
            assert caught.value.code is ErrorCode.stale_broker_epoch

    with_cluster(work)


def test_what_one_broker_leads_the_other_has() -> None:
    """The whole way: created through one, written on the leader, committed when the follower has it."""

    async def work(cluster: SmallCluster, client: InProcess) -> None:
        assert (await client.ask(CREATE_TOPICS, 7, topic("t"))).topics[0].error_code is OK
        brokers = {1: cluster.controller, 2: cluster.other}
        await eventually(lambda: all(each.partitions.get("t", 0) is not None for each in brokers.values()))
        leader = brokers[cluster.other.controller.image.topics["t"].partitions[0].leader]
        follower = brokers[3 - leader.config.node_id]
        records = encode_batch([Record(0, 1, None, b"v"), Record(1, 1, None, b"w")])
        data = [{"name": "t", "partition_data": [{"index": 0, "records": records}]}]
        body = {"acks": -1, "timeout": timedelta(seconds=10), "topic_data": data}
        (answer,) = (await InProcess(leader).ask(PRODUCE, 9, body)).responses[0].partition_responses
        assert (answer.error_code, answer.base_offset) == (OK, 0)
        copy = follower.partitions.require("t", 0)
        assert copy.log.flushed_end_offset == 2, "it was acknowledged"
        await eventually(lambda: copy.high_watermark == 2)
        (refused,) = (await InProcess(follower).ask(PRODUCE, 9, body)).responses[0].partition_responses
        assert refused.error_code is ErrorCode.not_leader_or_follower

    with_cluster(work)
