"""Topics with retention=consumed that nobody subscribes to any more: when they go, and what keeps them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from penstock.broker.group_coordinator import OFFSETS_TOPIC
from penstock.broker.subscription_positions import PositionsUnknownError, positions_here
from penstock.broker.unread_topics import UnreadTopics
from penstock.groups.marks import PUBLISHER
from penstock.metadata.assignments import NewTopic
from penstock.metadata.configs import UNREAD_SINCE
from penstock.types import ApiError, ErrorCode
from tests.unit.broker.in_process import InProcess, eventually
from tests.unit.broker.small_cluster import SmallCluster, with_cluster
from tests.unit.broker.test_consumed_retention import TOPIC, Setting, with_setting

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

GRACE_MS = 1_000


class Clock:
    """Of a broker, by the test."""

    def __init__(self, broker: Broker) -> None:
        self.now_ms = 1_000_000
        broker.now_ms = lambda: self.now_ms  # type: ignore[method-assign]


def with_clock(work: Callable[[Setting, UnreadTopics, Clock], Awaitable[None]], **configs: str) -> None:
    async def run(setting: Setting) -> None:
        await work(setting, UnreadTopics(setting.broker), Clock(setting.broker))

    with_setting(run, **{"retention_consumed_grace_ms": str(GRACE_MS), **configs})


def is_there(setting: Setting) -> bool:
    return TOPIC in setting.broker.controller.image.topics


def since_ms(setting: Setting) -> int:
    return setting.broker.controller.topic_config(TOPIC).retention_consumed_unread_since_ms


def test_a_topic_goes_when_nobody_has_subscribed_for_the_grace_time() -> None:
    async def work(setting: Setting, unread: UnreadTopics, clock: Clock) -> None:
        await setting.commit("publisher", 10, metadata=f"{PUBLISHER} {{}}")
        await setting.commit("reader", 10)
        await unread.round()
        assert since_ms(setting) == -1
        await setting.broker.groups.delete_group("reader")
        await unread.round()
        assert since_ms(setting) == clock.now_ms
        clock.now_ms += GRACE_MS - 1
        await unread.round()
        assert is_there(setting)
        clock.now_ms += 1
        await unread.round()
        assert not is_there(setting)
        # With what publishers kept of it.
        await eventually(lambda: not any(group.offsets.known() for group in setting.broker.groups.groups()))

    with_clock(work)


def test_a_subscription_within_the_grace_time_keeps_it_and_the_next_one_begins_anew() -> None:
    async def work(setting: Setting, unread: UnreadTopics, clock: Clock) -> None:
        await unread.round()
        clock.now_ms += GRACE_MS - 1
        await setting.commit("reader", 10)
        clock.now_ms += GRACE_MS
        await unread.round()
        await unread.round()
        assert is_there(setting)
        assert since_ms(setting) == -1
        await setting.broker.groups.delete_group("reader")
        await unread.round()
        clock.now_ms += GRACE_MS - 1
        await unread.round()
        assert is_there(setting)

    with_clock(work)


def test_who_takes_over_counts_on_and_looks_twice() -> None:
    async def work(setting: Setting, unread: UnreadTopics, clock: Clock) -> None:
        await unread.round()
        clock.now_ms += GRACE_MS
        later = UnreadTopics(setting.broker)
        await later.round()
        assert is_there(setting)
        await later.round()
        assert not is_there(setting)

    with_clock(work)


def test_a_clock_that_goes_back_begins_the_grace_time_anew() -> None:
    async def work(setting: Setting, unread: UnreadTopics, clock: Clock) -> None:
        await unread.round()
        clock.now_ms -= 500_000
        await unread.round()
        assert since_ms(setting) == clock.now_ms

    with_clock(work)


def test_a_subscription_that_comes_before_the_topic_is_closed_keeps_it() -> None:
    async def work(setting: Setting, unread: UnreadTopics, clock: Clock) -> None:
        await unread.round()
        clock.now_ms += GRACE_MS
        channel = setting.broker.channel
        set_topic_config = channel.set_topic_config

        async def subscribe_first(topic: str, name: str, value: str) -> None:
            if value == "0":
                await setting.commit("reader", 3)
            await set_topic_config(topic, name, value)

        channel.set_topic_config = subscribe_first  # type: ignore[method-assign]
        await unread.round()
        assert is_there(setting)
        assert since_ms(setting) == -1
        await setting.commit("reader", 5)

    with_clock(work)


def test_nobody_subscribes_to_a_closed_topic_and_it_goes_also_with_another_leader() -> None:
    async def work(setting: Setting, unread: UnreadTopics, clock: Clock) -> None:
        await setting.broker.channel.set_topic_config(TOPIC, UNREAD_SINCE, "0")
        with pytest.raises(ApiError) as refused:
            await setting.commit("reader", 3)
        assert refused.value.code is ErrorCode.coordinator_load_in_progress
        await setting.commit("publisher", 10, metadata=f"{PUBLISHER} {{}}")
        await unread.round()
        assert not is_there(setting)

    with_clock(work)


def test_a_topic_that_was_closed_by_mistake_is_open_again() -> None:
    async def work(setting: Setting, unread: UnreadTopics, clock: Clock) -> None:
        await setting.commit("reader", 3)
        await setting.broker.channel.set_topic_config(TOPIC, UNREAD_SINCE, "0")
        await unread.round()
        assert since_ms(setting) == -1
        await setting.commit("reader", 4)
        await setting.broker.channel.set_topic_config(TOPIC, UNREAD_SINCE, "0")
        await setting.broker.channel.set_topic_config(TOPIC, "retention", "time")
        await setting.commit("reader", 5)

    with_clock(work)


def test_other_policies_and_internal_topics_stay() -> None:
    async def work(setting: Setting, unread: UnreadTopics, clock: Clock) -> None:
        for _ in range(4):
            await unread.round()
            clock.now_ms += GRACE_MS
        assert is_there(setting)
        await setting.broker.channel.set_topic_config(OFFSETS_TOPIC, "retention", "consumed")
        for _ in range(4):
            await unread.round()
            clock.now_ms += 2 * 86_400_000
        assert OFFSETS_TOPIC in setting.broker.controller.image.topics

    with_clock(work, retention="time")


def test_while_a_coordinator_does_not_see_it_closed_it_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(setting: Setting, unread: UnreadTopics, clock: Clock) -> None:
        with pytest.raises(ApiError):
            await positions_here(setting.broker, [0], [TOPIC], [TOPIC])
        await unread.round()
        clock.now_ms += GRACE_MS
        setting.partition(
            setting.broker.groups.partition_of("x").partition, OFFSETS_TOPIC
        ).has_enough_replicas = False
        with pytest.raises(PositionsUnknownError):
            await unread.round()
        assert is_there(setting)

    with_clock(work)


def test_the_leader_need_not_be_the_controller() -> None:
    async def work(cluster: SmallCluster, client: InProcess) -> None:
        brokers = {1: cluster.controller, 2: cluster.other}
        grace: Any = [("retention", "consumed"), ("retention.consumed.grace.ms", "0")]
        placed = [(0, (2,))]
        await cluster.controller.controller.create_topics(
            [NewTopic(TOPIC, assignments=placed, configs=grace)]
        )
        await cluster.controller.groups.ensure_topic()
        for broker in brokers.values():
            await eventually(lambda broker=broker: OFFSETS_TOPIC in broker.controller.image.topics)
            await broker.controller.publisher.settled()
            await broker.groups.load_all()
        unread = UnreadTopics(cluster.other)

        async def goes() -> bool:
            try:
                await unread.round()
            except (ApiError, PositionsUnknownError):
                pass  # the other one has not heard of it yet
            return TOPIC not in cluster.controller.controller.image.topics

        for _ in range(20):
            if await goes():
                return
        raise AssertionError("the topic is still there")

    with_cluster(work)
