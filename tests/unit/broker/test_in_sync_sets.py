"""Proposals on their way to the controller: real leaders, and a controller that says what the test wants."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.broker import in_sync_sets as in_sync_sets_module
from penstock.broker.in_sync_sets import InSyncSets
from penstock.metadata.partition_changes import IsrChange, IsrOutcome, alter_partitions
from penstock.replication.leader import PartitionLeader, PartitionState
from penstock.types import ApiError, ErrorCode
from tests.unit.broker.in_process import WAIT_S_MAX, eventually
from tests.unit.metadata.builders import apply, at_least, cluster, partition_of, with_topic
from tests.unit.replication.logs import Log

ME = 1
TOPIC_ID = uuid.UUID(int=1)
LAG_MS_MAX = 100
EPOCH = 5
"""Of the leader."""
Answer = ErrorCode | Callable[[list[IsrChange]], list[IsrOutcome]]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_sync_sets_module, "CHECK_S", 0.002)
    monkeypatch.setattr(in_sync_sets_module, "RETRY_S", 0.002)


def agreed(changes: list[IsrChange]) -> list[IsrOutcome]:
    return [IsrOutcome(change.topic_id, change.partition) for change in changes]


def refused(code: ErrorCode, *indexes: int) -> Callable[[list[IsrChange]], list[IsrOutcome]]:
    """Of these partitions, and agreement to the others."""

    def answer(changes: list[IsrChange]) -> list[IsrOutcome]:
        return [
            IsrOutcome(each.topic_id, each.partition, ApiError(code) if each.partition in indexes else None)
            for each in changes
        ]

    return answer


class World:
    def __init__(self) -> None:
        self.now_ms = 0
        self.broker_epoch = 40
        self.partitions: list[Any] = []
        self.requests: list[tuple[int, list[IsrChange]]] = []
        """(epoch of the broker, what it wants)"""
        self.counted: list[int] = []
        """Partitions whose silent replicas were looked for."""
        self.answers: list[Answer] = [agreed]
        """The last one stays."""
        self.image = SimpleNamespace(
            brokers={
                broker_id: SimpleNamespace(epoch=10 * broker_id, electable=True) for broker_id in (1, 2, 3)
            }
        )
        parts: Any = (self.partitions, self, self)
        self.sets = InSyncSets(
            *parts,
            node_id=ME,
            broker_epoch=lambda: self.broker_epoch,
            monotonic_ms=lambda: self.now_ms,
        )

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, changes: list[IsrChange]
    ) -> list[IsrOutcome]:
        assert broker_id == ME
        self.requests.append((broker_epoch, changes))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, ErrorCode):
            raise ApiError(answer)
        return answer(changes)

    def lead(self, *isr: int, index: int = 0, replicas: tuple[int, ...] = (1, 2, 3)) -> PartitionLeader:
        """A partition of ten messages that this broker leads."""
        leader = PartitionLeader(
            ME,
            PartitionState(ME, EPOCH, 3, replicas, isr),
            Log([(EPOCH, 0)], 10),
            high_watermark=0,
            min_insync_replicas=1,
            lag_ms_max=LAG_MS_MAX,
            now_ms=self.now_ms,
        )
        image = SimpleNamespace(replicas=replicas, offline=())
        self.partitions.append(
            SimpleNamespace(
                topic_id=TOPIC_ID,
                index=index,
                image=image,
                leader=leader,
                count_replicas=lambda: self.counted.append(index),
            )
        )
        return leader

    def fetched(self, leader: PartitionLeader, broker_id: int, offset: int = 10) -> None:
        leader.fetched(broker_id, 10 * broker_id, offset, self.now_ms)

    @property
    def wanted(self) -> list[tuple[tuple[int, int], ...]]:
        """The sets of all proposals, one after the other."""
        return [change.isr for _, changes in self.requests for change in changes]


def run(work: Callable[[World], Awaitable[None]]) -> None:
    async def live() -> None:
        world = World()
        world.sets.start()
        try:
            async with asyncio.timeout(WAIT_S_MAX):
                await work(world)
        finally:
            await world.sets.stop()

    asyncio.run(live())


async def a_while() -> None:
    """Long enough for many rounds, of which none should have done anything."""
    await asyncio.sleep(0.03)


def test_who_has_caught_up_is_proposed_with_the_epoch_that_it_fetched_in() -> None:
    async def work(world: World) -> None:
        leader = world.lead(1, 2)
        world.fetched(leader, 2)
        await a_while()
        assert world.requests == [], "nothing to say"
        world.fetched(leader, 3)
        await eventually(lambda: bool(world.requests))
        broker_epoch, (change,) = world.requests[0]
        assert broker_epoch == 40
        assert change == IsrChange(TOPIC_ID, 0, EPOCH, 3, ((1, 10), (2, 20), (3, 30)))

    run(work)


def test_who_falls_behind_is_left_out() -> None:
    async def work(world: World) -> None:
        leader = world.lead(1, 2, 3)
        world.now_ms = LAG_MS_MAX + 1
        world.fetched(leader, 2)
        await eventually(lambda: bool(world.requests))
        assert world.wanted[0] == ((1, 10), (2, 20))

    run(work)


def test_partitions_that_need_nobody_or_are_led_elsewhere_are_passed_over() -> None:
    async def work(world: World) -> None:
        world.lead(1, replicas=(1,))
        world.partitions.append(
            SimpleNamespace(topic_id=TOPIC_ID, index=1, image=SimpleNamespace(replicas=(1, 2)), leader=None)
        )
        world.now_ms = 10 * LAG_MS_MAX
        await a_while()
        assert world.requests == []

    run(work)


@pytest.mark.parametrize("state", ["fenced or stopping", "unknown", "another incarnation", "out of service"])
def test_who_may_not_join_is_not_proposed(state: str) -> None:
    async def work(world: World) -> None:
        leader = world.lead(1, 2)
        match state:
            case "unknown":
                del world.image.brokers[3]
            case "another incarnation":
                world.image.brokers[3].epoch += 1
            case "out of service":
                world.partitions[0].image.offline = (3,)
            case _:
                world.image.brokers[3].electable = False
        world.fetched(leader, 2)
        world.fetched(leader, 3)
        await a_while()
        assert world.requests == []

    run(work)


def test_a_proposal_without_an_answer_is_sent_again_as_it_was() -> None:
    async def work(world: World) -> None:
        leader = world.lead(1)
        world.answers = [ErrorCode.request_timed_out, ErrorCode.not_controller, agreed]
        world.fetched(leader, 2)
        await eventually(lambda: len(world.requests) == 1)
        world.fetched(leader, 3)  # it has to wait: one proposal at a time
        world.broker_epoch = 41
        await eventually(lambda: len(world.requests) >= 3)
        assert world.wanted[:3] == [((1, 10), (2, 20))] * 3
        assert [epoch for epoch, _ in world.requests[1:3]] == [41, 41], "in the name of who we are now"

    run(work)


def test_agreement_counts_when_the_metadata_tell_it() -> None:
    async def work(world: World) -> None:
        leader = world.lead(1)
        world.fetched(leader, 2)
        await eventually(lambda: len(world.requests) >= 2)
        assert leader.state.isr == (1,)
        assert leader.proposal is not None
        leader.changed(PartitionState(ME, EPOCH, 4, (1, 2, 3), (1, 2)))
        assert leader.proposal is None
        await asyncio.sleep(0)
        sent = len(world.requests)
        await a_while()
        assert len(world.requests) <= sent + 1, "at most the one that was under way"

    run(work)


def test_all_partitions_go_in_one_request_and_one_refusal_is_its_own() -> None:
    async def work(world: World) -> None:
        leaders = [world.lead(1, index=index) for index in range(3)]
        world.answers = [ErrorCode.request_timed_out, refused(ErrorCode.ineligible_replica, 1), agreed]
        for leader in leaders:
            world.fetched(leader, 2)
        await eventually(lambda: len(world.requests) >= 2)
        assert [change.partition for change in world.requests[1][1]] == [0, 1, 2]
        assert [leader.proposal is None for leader in (leaders[0], leaders[2])] == [False, False]

    run(work)


def test_after_a_refusal_of_what_was_sent_twice_the_set_that_is_gets_a_new_epoch() -> None:
    """Nobody knows what becomes of the other copy: the one that it named counts until the epoch moves."""

    async def work(world: World) -> None:
        leader = world.lead(1)

        def refused_for_its_fencing(changes: list[IsrChange]) -> list[IsrOutcome]:
            world.image.brokers[2].electable = False
            return refused(ErrorCode.ineligible_replica, 0)(changes)

        world.answers = [ErrorCode.request_timed_out, refused_for_its_fencing, ErrorCode.request_timed_out]
        world.fetched(leader, 2)
        await eventually(lambda: len(world.requests) >= 3)
        assert world.wanted[:3] == [((1, 10), (2, 20)), ((1, 10), (2, 20)), ((1, 10),)]
        leader.changed(PartitionState(ME, EPOCH, 4, (1, 2, 3), (1,)))
        sent = len(world.requests)
        await a_while()
        assert len(world.requests) <= sent + 1, "no doubt is left"

    run(work)


def test_the_set_that_is_makes_a_new_partition_epoch() -> None:
    """After it no copy of an earlier proposal counts."""
    image = with_topic(cluster(3), "t", replicas=(1, 2, 3), isr=(1, 2))
    same = IsrChange(TOPIC_ID, 0, 0, 0, ((1, 0), (2, 0)))
    records, (outcome,) = alter_partitions(image, ME, 0, [same], at_least(1))
    after, _ = apply(image, records)
    assert outcome.state == partition_of(after)
    assert partition_of(after) == partition_of(image)._replace(partition_epoch=1)
    # The copy that was on its way comes too late, and the same question again changes nothing more.
    late = IsrChange(TOPIC_ID, 0, 0, 0, ((1, 0), (2, 0), (3, 0)))
    records, (outcome,) = alter_partitions(after, ME, 0, [late], at_least(1))
    assert (records, outcome.error and outcome.error.code) == ([], ErrorCode.invalid_update_version)
    records, (outcome,) = alter_partitions(after, ME, 0, [same], at_least(1))
    assert (records, outcome.error) == ([], None)


def test_a_fault_is_not_the_end_of_it(caplog: pytest.LogCaptureFixture) -> None:
    async def work(world: World) -> None:
        leader = world.lead(1)
        world.answers = [lambda _: [IsrOutcome(uuid.UUID(int=9), 9)], agreed]  # of what nobody asked
        world.fetched(leader, 2)
        await eventually(lambda: len(world.requests) >= 2)
        assert "in-sync sets" in caplog.text

    run(work)


def test_replicas_that_fell_silent_are_looked_for_again_and_again() -> None:
    """Nothing else happens when a follower that lives fetches no more."""

    async def work(world: World) -> None:
        world.lead(1, 2, 3)
        await eventually(lambda: world.counted.count(0) >= 3)

    run(work)
