"""Rounds of consumed retention on real brokers in memory: who is asked, and what stays if one is not sure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from penstock.broker.consumed_retention import ConsumedRetention
from penstock.broker.group_coordinator import OFFSETS_TOPIC
from penstock.broker.group_shard import GroupShard
from penstock.groups.marks import PUBLISHER
from penstock.groups.messages import CommitRequest, Producer
from penstock.groups.offsets import CommittedOffset
from penstock.metadata.assignments import NewTopic
from penstock.types import ErrorCode, TopicPartition
from penstock.wire.batch import TRANSACTIONAL
from penstock.wire.control import Marker, encode_marker
from penstock.wire.records import Record, encode_batch
from tests.unit.broker.in_process import InProcess, begin_epoch, eventually, with_broker
from tests.unit.broker.small_cluster import SmallCluster, with_cluster

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.partition import Partition

TOPIC = "news"
COUNT = 10


class Setting:
    """A topic with ten records, and rounds that are begun by hand."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.retention = ConsumedRetention(broker)

    async def prepare(self, partitions: int = 1, **configs: str) -> None:
        named = [(name.replace("_", "."), value) for name, value in configs.items()]
        wanted = NewTopic(TOPIC, partitions, configs=[*{"retention": "consumed", **dict(named)}.items()])
        await self.broker.controller.create_topics([wanted])
        await self.broker.controller.publisher.settled()
        await self.broker.groups.ensure_topic()
        await self.broker.controller.publisher.settled()
        await self.write(COUNT)

    def partition(self, index: int = 0, topic: str = TOPIC) -> Partition:
        found = self.broker.partitions.get(topic, index)
        assert found is not None
        return found

    async def write(self, count: int, index: int = 0, **options: Any) -> None:
        for _ in range(count):
            await self.partition(index).append_own(encode_batch([Record(0, 0, None, b"x" * 100)], **options))

    async def commit(
        self, group_id: str, offset: int, index: int = 0, metadata: str = "", producer: Producer | None = None
    ) -> None:
        value = CommittedOffset(offset=offset, metadata=metadata, commit_timestamp_ms=self.broker.now_ms())
        offsets = {TopicPartition(TOPIC, index): value}
        reply = await self.broker.groups.commit(group_id, CommitRequest(offsets=offsets, producer=producer))
        assert reply.error is ErrorCode.none

    async def rounds(self, count: int = 2) -> int:
        """Where the log starts afterwards."""
        for _ in range(count):
            await self.retention.round()
        return self.partition().log_start_offset


def with_setting(work: Callable[[Setting], Awaitable[None]], **configs: str) -> None:
    async def run(client: InProcess) -> None:
        setting = Setting(client.broker)
        await setting.prepare(**configs)
        await work(setting)

    with_broker(run, offsets_topic_partitions=3)


def test_what_all_subscriptions_have_got_goes() -> None:
    async def work(setting: Setting) -> None:
        await setting.commit("a", 7)
        await setting.commit("b", 4)
        assert await setting.rounds(1) == 0
        assert await setting.rounds(1) == 4
        await setting.commit("b", 10)
        assert await setting.rounds(1) == 7
        await setting.broker.groups.delete_group("a")
        assert await setting.rounds(1) == 10
        assert setting.broker.metrics.consumed_removed == 10
        assert setting.broker.metrics.consumed_lost == 0

    with_setting(work)


def test_by_time_and_size_nothing_goes() -> None:
    async def work(setting: Setting) -> None:
        await setting.commit("away", 0)
        for line in setting.partition().log.apply_retention(now_ms=1 << 50, high_watermark=COUNT):
            raise AssertionError(line)
        assert await setting.rounds() == 0

    with_setting(work, retention_ms="1", retention_bytes="1", segment_bytes="300")


def test_another_policy_is_left_alone() -> None:
    async def work(setting: Setting) -> None:
        await setting.commit("a", COUNT)
        assert await setting.rounds(4) == 0

    with_setting(work, cleanup_policy="compact")


def test_what_publishers_remember_does_not_count_as_read() -> None:
    async def work(setting: Setting) -> None:
        await setting.commit("p", 2, metadata=f'{PUBLISHER} {{"seq":2}}')
        await setting.commit("a", 8)
        assert await setting.rounds() == 8

    with_setting(work)


def test_a_position_in_an_open_transaction_counts() -> None:
    async def work(setting: Setting) -> None:
        await setting.commit("a", COUNT)
        await setting.commit("new", 3, producer=Producer(5, 0))
        assert await setting.rounds() == 3

    with_setting(work)


def test_records_of_an_open_transaction_stay() -> None:
    async def work(setting: Setting) -> None:
        producer = Producer(5, 0)
        await setting.write(
            1, attributes=TRANSACTIONAL, producer_id=producer.id, producer_epoch=0, base_sequence=0
        )
        await setting.commit("a", COUNT + 1)
        assert await setting.rounds() == COUNT
        await setting.partition().append_own(encode_marker(Marker(True, 0), *producer, 0))
        await setting.commit("a", COUNT + 2)
        assert await setting.rounds() == COUNT + 2

    with_setting(work)


def test_a_group_that_has_got_nothing_of_a_partition_holds_all_of_it() -> None:
    async def work(setting: Setting) -> None:
        await setting.write(5, index=1)
        await setting.commit("a", COUNT)
        await setting.commit("b", COUNT)
        await setting.commit("b", 5, index=1)
        assert await setting.rounds() == COUNT
        assert setting.partition(1).log_start_offset == 0
        await setting.commit("a", 2, index=1)
        await setting.rounds(1)
        assert setting.partition(1).log_start_offset == 2

    async def run(client: InProcess) -> None:
        setting = Setting(client.broker)
        await setting.prepare(partitions=2)
        await work(setting)

    with_broker(run)


def test_without_subscriptions_records_go_after_the_grace_time() -> None:
    async def work(setting: Setting) -> None:
        assert await setting.rounds(4) == 0
        await setting.broker.controller.publisher.settled()
        setting.partition().reconfigure(await no_grace(setting.broker))
        assert await setting.rounds(2) == COUNT
        assert TOPIC in setting.broker.controller.image.topics

    async def no_grace(broker: Broker) -> Any:
        await broker.controller.create_topics(
            [NewTopic("twin", 1, configs=[("retention", "consumed"), ("retention.consumed.grace.ms", "0")])]
        )
        return broker.controller.topic_config("twin")

    with_setting(work)


def test_a_ceiling_is_reported_with_the_subscriptions_that_lose(caplog: pytest.LogCaptureFixture) -> None:
    async def work(setting: Setting) -> None:
        await setting.commit("slow", 1)
        await setting.commit("fast", COUNT)
        start = await setting.rounds()
        assert 1 < start < COUNT
        assert setting.broker.metrics.consumed_lost == start - 1
        assert f"news-0: subscription slow had not got offsets 1 to {start - 1}" in caplog.text
        assert "subscription fast" not in caplog.text

    with_setting(work, retention_consumed_bytes="500", segment_bytes="400")


def test_without_an_offsets_topic_one_is_made_first() -> None:
    async def run(client: InProcess) -> None:
        broker = client.broker
        await broker.controller.create_topics(
            [NewTopic(TOPIC, 1, configs=[("retention", "consumed"), ("retention.consumed.grace.ms", "0")])]
        )
        await broker.controller.publisher.settled()
        setting = Setting(broker)
        await setting.write(COUNT)
        assert await setting.rounds(2) == 0
        assert OFFSETS_TOPIC in broker.controller.image.topics
        await broker.controller.publisher.settled()
        assert await setting.rounds(2) == COUNT

    with_broker(run)


# Coordinators that are not sure


def offsets_partition(setting: Setting, group_id: str) -> Partition:
    return setting.partition(setting.broker.groups.partition_of(group_id).partition, OFFSETS_TOPIC)


def test_while_a_coordinator_loads_nothing_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(setting: Setting) -> None:
        await setting.commit("a", 7)
        await setting.rounds(1)
        may_load = asyncio.Event()
        load = GroupShard.load

        async def slow_load(shard: GroupShard) -> None:
            await may_load.wait()
            await load(shard)

        monkeypatch.setattr(GroupShard, "load", slow_load)
        begin_epoch(offsets_partition(setting, "a"), 9)
        assert await setting.rounds(2) == 0
        may_load.set()
        await setting.broker.groups.load_all()
        assert await setting.rounds(1) == 7

    with_setting(work)


def change_when_confirmed(monkeypatch: pytest.MonkeyPatch, change: Callable[[], None]) -> None:
    confirm = GroupShard.confirm

    async def confirm_and_change(shard: GroupShard) -> None:
        await confirm(shard)
        monkeypatch.setattr(GroupShard, "confirm", confirm)
        change()

    monkeypatch.setattr(GroupShard, "confirm", confirm_and_change)


@pytest.mark.parametrize("is_of_offsets", [True, False])
def test_an_epoch_that_ends_while_others_are_asked_voids_the_round(
    is_of_offsets: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(setting: Setting) -> None:
        await setting.commit("a", 7)
        await setting.rounds(1)
        changed = offsets_partition(setting, "a") if is_of_offsets else setting.partition()
        change_when_confirmed(monkeypatch, lambda: begin_epoch(changed, 9))
        assert await setting.rounds(1) == 0
        await setting.broker.groups.load_all()
        assert await setting.rounds(2) == 7

    with_setting(work)


def test_a_leader_that_cannot_write_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(setting: Setting) -> None:
        await setting.commit("a", 7)
        await setting.rounds(1)
        partition = offsets_partition(setting, "nobody")
        partition.has_enough_replicas = False
        assert await setting.rounds(2) == 0
        partition.has_enough_replicas = True
        assert await setting.rounds(1) == 7

    with_setting(work)


def test_what_confirms_leaves_nothing_behind() -> None:
    async def work(setting: Setting) -> None:
        await setting.commit("a", 7)
        await setting.rounds(3)
        partition = offsets_partition(setting, "a")
        begin_epoch(partition, 9)
        await setting.broker.groups.load_all()
        (group,) = setting.broker.groups.groups()
        assert (group.group_id, list(group.offsets.committed)) == ("a", [TopicPartition(TOPIC, 0)])

    with_setting(work)


# Two brokers


def test_the_positions_of_all_coordinators_count_and_a_missing_one_holds_all() -> None:
    async def work(cluster: SmallCluster, client: InProcess) -> None:
        brokers = {1: cluster.controller, 2: cluster.other}
        await cluster.controller.controller.create_topics(
            [NewTopic(TOPIC, 1, configs=[("retention", "consumed")])]
        )
        await cluster.controller.groups.ensure_topic()
        for broker in brokers.values():
            await eventually(lambda broker=broker: OFFSETS_TOPIC in broker.controller.image.topics)
            await broker.controller.publisher.settled()
        image = cluster.controller.controller.image
        leaders = {index: each.leader for index, each in image.topics[OFFSETS_TOPIC].partitions.items()}
        assert set(leaders.values()) == {1, 2}
        data_leader = image.topics[TOPIC].partitions[0].leader
        setting = Setting(brokers[data_leader])
        await setting.write(COUNT)
        for offset, (index, leader) in enumerate(leaders.items(), 4):
            group_id = next(
                name
                for name in map(str, range(100))
                if setting.broker.groups.partition_of(name).partition == index
            )
            await brokers[leader].groups.load_all()
            await Setting(brokers[leader]).commit(group_id, offset)
        assert await setting.rounds() == 4
        other = brokers[3 - data_leader].partitions.get(TOPIC, 0)
        assert other is not None
        await eventually(lambda: other.log_start_offset == 4)

    with_cluster(work)
