"""Metadata, as a client in trouble needs it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from penstock.metadata.records import FenceBrokerRecord
from tests.unit.broker.in_process import InProcess, with_broker
from tests.unit.broker.small_cluster import SmallCluster, with_cluster

METADATA = 3
API_VERSIONS = 18


def test_a_client_is_never_told_of_no_broker_at_all() -> None:
    """librdkafka forgets the brokers that are not named, and with an empty list all that it could ask."""

    async def work(client: InProcess) -> None:
        controller = client.broker.controller
        epoch = controller.image.brokers[1].epoch
        await controller.active.change(lambda _: ([FenceBrokerRecord(1, epoch)], None))
        assert controller.image.live_brokers() == []
        answer = await client.ask(METADATA, 12, {"topics": []})
        assert [each.node_id for each in answer.brokers] == [1]

    with_broker(work)


@pytest.mark.parametrize(
    ("name", "named"),
    [("librdkafka", [1, 2]), ("confluent-kafka-python", [1, 2]), ("apache-kafka-java", [1]), ("", [1])],
)
def test_a_broker_that_has_just_been_fenced_is_still_named_to_librdkafka(name: str, named: list[int]) -> None:
    """Else it ends its thread, and with it the new leader of what that thread had. Others would ask it."""

    async def work(cluster: SmallCluster, _client: InProcess) -> None:
        controller = cluster.controller.controller
        client = InProcess(cluster.controller)
        software = {"client_software_name": name, "client_software_version": "1"}
        await client.ask(API_VERSIONS, 3, software)
        await cluster.other.lifecycle.until_unfenced()
        epoch = controller.image.brokers[2].epoch
        await controller.active.change(lambda _: ([FenceBrokerRecord(2, epoch)], None))
        answer = await client.ask(METADATA, 12, {"topics": []})
        assert [each.node_id for each in answer.brokers] == named

    with_cluster(work)


def test_a_process_that_was_not_let_in_yet_waits_before_it_names_leaders() -> None:
    """It would name those of before it was away."""

    async def work(cluster: SmallCluster, client: InProcess) -> None:
        beats, unfenced = cluster.other.lifecycle._task, cluster.other.lifecycle._unfenced
        assert beats is not None
        beats.cancel()  # the next one would let it in
        unfenced.clear()
        asked = asyncio.ensure_future(client.ask(METADATA, 12, {"topics": []}))
        await asyncio.wait([asked], timeout=0.05)
        assert not asked.done()
        unfenced.set()
        assert [each.node_id for each in (await asked).brokers] == [1, 2]

    with_cluster(work)


def test_it_does_not_wait_for_ever() -> None:
    async def work(cluster: SmallCluster, client: InProcess) -> None:
        await cluster.other.lifecycle.stop()  # no more heartbeats
        cluster.other.lifecycle._unfenced.clear()
        limits = replace(cluster.other.config.cluster, controller_request_ms_max=300)
        cluster.other.config = replace(cluster.other.config, cluster=limits)
        answer = await client.ask(METADATA, 12, {"topics": []})
        assert 1 in [each.node_id for each in answer.brokers]

    with_cluster(work)
