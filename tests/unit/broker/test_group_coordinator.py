"""The driver of consumer groups on a real broker in memory: answers, timers, restarts, lost leadership."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from penstock.broker import coordinator, coordinator_shard
from penstock.broker import partition as partition_module
from penstock.broker.broker import Broker
from penstock.broker.group_coordinator import OFFSETS_TOPIC, GroupCoordinator
from penstock.broker.lifecycle import Lifecycle
from penstock.config import NodeConfig
from penstock.groups.limits import GroupLimits
from penstock.groups.messages import CommitRequest, JoinReply, JoinRequest, LeavingMember, SyncRequest
from penstock.groups.offsets import CommittedOffset
from penstock.groups.shard import Shard
from penstock.groups.states import GroupState
from penstock.metadata.assignments import NewTopic
from penstock.metadata.broker_configs import static_values
from penstock.metadata.topics import TopicReference
from penstock.storage import MemoryStorage
from penstock.storage.errors import StorageError
from penstock.types import ApiError, ErrorCode, TopicPartition
from penstock.wire.records import Record, encode_batch
from tests.unit.broker.in_process import WAIT_S_MAX, InProcess, begin_epoch, eventually

LIST_GROUPS = 16
QUICK = GroupLimits(
    initial_rebalance_delay_ms=5, session_timeout_ms_min=10, offsets_retention_ms=0,
    offsets_retention_check_interval_ms=20,
)  # fmt: skip
PATIENT = GroupLimits(initial_rebalance_delay_ms=5, session_timeout_ms_min=10)


def start_over(storage: MemoryStorage, limits: GroupLimits) -> Broker:
    config = NodeConfig(port=0, http_port=None, storage="memory", offsets_topic_partitions=4, groups=limits)
    return Broker(config, storage)


def run(*parts: Callable[[Broker], Awaitable[None]], limits: GroupLimits = PATIENT) -> None:
    """Run the parts one after the other, each on a new broker over the same storage."""

    async def all_parts() -> None:
        storage = MemoryStorage(uuid.UUID(int=7), node_id=1, cluster_id="test")
        for part in parts:
            broker = start_over(storage, limits)
            await broker.start()
            try:
                await asyncio.wait_for(part(broker), WAIT_S_MAX)
            finally:
                await broker.stop()

    asyncio.run(all_parts())


async def ready(broker: Broker, group_id: str = "g") -> GroupCoordinator:
    assert (await broker.groups.coordinator(group_id)).id == broker.config.node_id
    await eventually(lambda: is_loaded(broker.groups, group_id))
    return broker.groups


def is_loaded(groups: GroupCoordinator, group_id: str) -> bool:
    try:
        groups.maybe_group(group_id)
    except ApiError as error:
        if error.code is not ErrorCode.coordinator_load_in_progress:
            raise
        return False
    return True


def joining(member_id: str = "", session_timeout_ms: int = 20_000, **options: object) -> JoinRequest:
    fields: dict[str, object] = {
        "requires_known_member_id": False, "protocol_type": "x", "protocols": (("p", b""),),
    }  # fmt: skip
    return JoinRequest(
        member_id=member_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=20_000,
        fresh_member_id=f"m-{uuid.uuid4()}",
        **{**fields, **options},
    )


def committing(offset: int, **options: object) -> CommitRequest:
    value = CommittedOffset(offset=offset, leader_epoch=3, metadata="note", commit_timestamp_ms=1)
    return CommitRequest(offsets={TopicPartition("t", 0): value}, **options)


async def become_stable(groups: GroupCoordinator, reply: JoinReply) -> None:
    synced = await groups.sync(
        "g",
        SyncRequest(
            member_id=reply.member_id,
            generation_id=reply.generation_id,
            assignments={reply.member_id: b"all"},
        ),
    )
    assert synced.error is ErrorCode.none
    assert synced.assignment == b"all"


def committed(groups: GroupCoordinator, group_id: str = "g") -> dict[TopicPartition, int]:
    group = groups.maybe_group(group_id)
    return {} if group is None else {where: one.offset for where, one in group.offsets.committed.items()}


def test_offsets_survive_a_restart() -> None:
    async def commit(broker: Broker) -> None:
        groups = await ready(broker)
        await broker.controller.create_topics([NewTopic("t", 1)])
        assert (await groups.commit("g", committing(41))).error is ErrorCode.none
        assert (await groups.commit("g", committing(42))).error is ErrorCode.none

    async def look(broker: Broker) -> None:
        group = (await ready(broker)).maybe_group("g")
        assert group is not None
        offset = group.offsets.committed[TopicPartition("t", 0)]
        assert (offset.offset, offset.leader_epoch, offset.metadata) == (42, 3, "note")

    run(commit, look, look)


def test_members_and_generation_survive_a_restart() -> None:
    members: list[JoinReply] = []

    async def join(broker: Broker) -> None:
        groups = await ready(broker)
        members.append(await groups.join("g", joining()))
        await become_stable(groups, members[0])

    async def go_on(broker: Broker) -> None:
        groups = await ready(broker)
        (known,) = members
        assert groups.heartbeat("g", known.member_id, None, known.generation_id) is ErrorCode.none
        again = await groups.join("g", joining(known.member_id))
        assert again.generation_id == known.generation_id + 1

    run(join, go_on)


def test_members_that_do_not_come_back_after_a_restart_are_dropped() -> None:
    async def join(broker: Broker) -> None:
        groups = await ready(broker)
        await become_stable(groups, await groups.join("g", joining(session_timeout_ms=30)))

    async def wait(broker: Broker) -> None:
        groups = await ready(broker)
        group = groups.maybe_group("g")
        assert group is not None
        await eventually(lambda: group.state is GroupState.EMPTY)

    run(join, wait)


def test_concurrent_joins_gather_in_one_generation() -> None:
    async def join(broker: Broker) -> None:
        groups = await ready(broker)
        replies = await asyncio.gather(*(groups.join("g", joining()) for _ in range(30)))
        assert {reply.generation_id for reply in replies} == {1}
        (leader,) = (reply for reply in replies if reply.members)
        assert {member.member_id for member in leader.members} == {reply.member_id for reply in replies}

    run(join)


def test_a_client_that_vanishes_in_join_disturbs_nobody() -> None:
    async def vanish(broker: Broker) -> None:
        groups = await ready(broker)
        gone = asyncio.create_task(groups.join("g", joining(session_timeout_ms=40)))
        stays = asyncio.create_task(groups.join("g", joining()))
        await asyncio.sleep(0)
        gone.cancel()
        first = await stays
        assert len(first.members) in (0, 2)  # the first to come leads, and the vanished one came first
        group = groups.maybe_group("g")
        assert group is not None
        await eventually(lambda: group.state is GroupState.PREPARING_REBALANCE)
        second = await groups.join("g", joining(first.member_id))
        assert [member.member_id for member in second.members] == [first.member_id]

    run(vanish)


def test_a_session_ends_by_the_timer_and_heartbeats_keep_it() -> None:
    async def expire(broker: Broker) -> None:
        groups = await ready(broker)
        reply = await groups.join("g", joining(session_timeout_ms=60))
        await become_stable(groups, reply)
        group = groups.maybe_group("g")
        assert group is not None
        started = groups.now_ms()
        while groups.now_ms() < started + 150:
            error = groups.heartbeat("g", reply.member_id, None, reply.generation_id)
            assert error is ErrorCode.none
            await asyncio.sleep(0.005)
        await eventually(lambda: group.state is GroupState.EMPTY)
        error = groups.heartbeat("g", reply.member_id, None, reply.generation_id)
        assert error is ErrorCode.unknown_member_id

    run(expire)


def test_offsets_go_with_their_topic_also_after_a_restart() -> None:
    async def delete(broker: Broker) -> None:
        groups = await ready(broker)
        await broker.controller.create_topics([NewTopic("t", 1)])
        await groups.commit("g", committing(5))
        await broker.controller.delete_topics([TopicReference("t")])
        await eventually(lambda: committed(groups) == {})

    async def look(broker: Broker) -> None:
        assert committed(await ready(broker)) == {}

    run(delete, look)


def test_offsets_go_also_when_a_crash_followed_the_deletion_of_their_topic() -> None:
    async def delete(broker: Broker) -> None:
        groups = await ready(broker)
        await broker.controller.create_topics([NewTopic("t", 1), NewTopic("kept", 1)])
        await groups.commit("g", committing(5))
        value = CommittedOffset(offset=6, commit_timestamp_ms=1)
        await groups.commit("g", CommitRequest(offsets={TopicPartition("kept", 0): value}))
        for shard in groups._shards.values():
            shard.resign()  # a crash: nothing is written here any more
        await broker.controller.delete_topics([TopicReference("t")])

    async def come_back(broker: Broker) -> None:
        groups = await ready(broker)
        await eventually(lambda: committed(groups) == {TopicPartition("kept", 0): 6})
        await broker.controller.create_topics([NewTopic("t", 1)])

    async def look(broker: Broker) -> None:
        assert committed(await ready(broker)) == {TopicPartition("kept", 0): 6}

    run(delete, come_back, look)


def test_a_shard_that_could_not_be_loaded_is_loaded_by_the_next_request(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = [ValueError("unforeseen"), StorageError("unreadable")]
    real_replay = Shard.replay

    def replay(
        shard: Shard, key: bytes, value: bytes | None, now_ms: int, producer_id: int | None = None
    ) -> None:
        if failures:
            raise failures.pop()
        real_replay(shard, key, value, now_ms, producer_id)

    async def commit(broker: Broker) -> None:
        groups = await ready(broker)
        await broker.controller.create_topics([NewTopic("t", 1)])
        await groups.commit("g", committing(5))
        monkeypatch.setattr(Shard, "replay", replay)

    async def try_again(broker: Broker) -> None:
        assert committed(await ready(broker)) == {TopicPartition("t", 0): 5}

    run(commit, try_again)
    assert failures == []
    assert sum("cannot load __consumer_offsets-" in message for message in caplog.messages) == 2


def test_the_limits_are_those_of_the_configuration() -> None:
    async def join(broker: Broker) -> None:
        reply = await (await ready(broker)).join("g", joining(session_timeout_ms=9))
        assert reply.error is ErrorCode.invalid_session_timeout
        assert static_values(broker.config)["offsets.retention.minutes"] == "3"

    run(join, limits=replace(PATIENT, offsets_retention_ms=3 * 60_000))


def test_the_sweep_removes_expired_offsets_and_their_group() -> None:
    async def sweep(broker: Broker) -> None:
        groups = await ready(broker)
        await groups.commit("g", committing(5))
        await eventually(lambda: groups.maybe_group("g") is None)

    async def look(broker: Broker) -> None:
        assert (await ready(broker)).groups() == []

    run(sweep, look, limits=QUICK)


def test_a_deleted_group_stays_deleted() -> None:
    async def delete(broker: Broker) -> None:
        groups = await ready(broker)
        await groups.commit("g", committing(5))
        pending = asyncio.create_task(groups.commit("g", committing(6)))
        await asyncio.sleep(0)
        assert await groups.delete_group("g") is ErrorCode.none
        assert (await pending).error is ErrorCode.none
        assert await groups.delete_group("g") is ErrorCode.group_id_not_found

    async def look(broker: Broker) -> None:
        assert (await ready(broker)).maybe_group("g") is None

    run(delete, look)


def test_a_commit_is_not_acknowledged_when_the_log_refuses_it() -> None:
    async def refuse(broker: Broker) -> None:
        groups = await ready(broker)
        await groups.commit("g", committing(5))
        for partition in broker.partitions:
            if partition.topic == OFFSETS_TOPIC:
                partition.log.error = StorageError("cannot write: No space left on device")
        assert (await groups.commit("g", committing(6))).error is ErrorCode.not_coordinator
        assert committed(groups) == {TopicPartition("t", 0): 5}

    run(refuse)


def test_a_partition_that_is_given_up_sends_everybody_away() -> None:
    async def give_up(broker: Broker) -> None:
        groups = await ready(broker)
        for partition in broker.partitions:
            if partition.topic == OFFSETS_TOPIC:
                await partition.drain()
        with pytest.raises(ApiError) as refused:
            await groups.commit("g", committing(6))
        assert refused.value.code is ErrorCode.not_coordinator
        with pytest.raises(ApiError) as not_found:  # in the words of FindCoordinator
            await groups.coordinator("g")
        assert not_found.value.code is ErrorCode.coordinator_not_available

    run(give_up)


def test_a_new_leader_epoch_sends_waiting_members_away_and_loads_again() -> None:
    async def change(broker: Broker) -> None:
        groups = await ready(broker)
        reply = await groups.join("g", joining())
        await become_stable(groups, reply)
        waiting = asyncio.create_task(groups.join("g", joining()))
        await asyncio.sleep(0)
        for partition in broker.partitions:
            begin_epoch(partition, partition.leader_epoch + 1)
        with pytest.raises(ApiError) as refused:
            groups.heartbeat("g", reply.member_id, None, reply.generation_id)
        assert refused.value.code is ErrorCode.coordinator_load_in_progress
        with pytest.raises(ApiError) as sent_away:
            await waiting
        assert sent_away.value.code is ErrorCode.not_coordinator
        await ready(broker)
        error = groups.heartbeat("g", reply.member_id, None, reply.generation_id)
        assert error is ErrorCode.none

    run(change)


def test_what_a_slow_disk_has_not_taken_yet_is_loaded_when_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_module, "SETTLE_S_MAX", 0.01)

    async def hang(broker: Broker) -> None:
        groups = await ready(broker)
        await broker.controller.create_topics([NewTopic("t", 1)])
        await groups.commit("g", committing(5))
        partition = groups.shard("g").partition
        flushes: list[Callable[[], None]] = []
        submit = partition._writers.submit
        with monkeypatch.context() as patch:
            patch.setattr(partition._writers, "submit", lambda *job: flushes.append(lambda: submit(*job)))
            end_offset = partition.log.log_end_offset
            slow = asyncio.create_task(groups.commit("g", committing(6)))
            await eventually(lambda: partition.log.log_end_offset > end_offset)
            begin_epoch(partition, partition.leader_epoch + 1)
            assert not is_loaded(groups, "g")
            await asyncio.sleep(0.1)
            assert not is_loaded(groups, "g")
        for flush in flushes:
            flush()
        await ready(broker)
        with pytest.raises(ApiError):
            await slow
        assert committed(groups) == {TopicPartition("t", 0): 6}

    run(hang)


def test_records_that_make_no_sense_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    async def damage(broker: Broker) -> None:
        groups = await ready(broker)
        await broker.controller.create_topics([NewTopic("t", 1)])
        await groups.commit("g", committing(5))
        shard = groups._shards[next(iter(groups._shards))]
        await shard.partition.append_own(
            encode_batch([Record(0, 0, b"\x00\x63nonsense", b"x"), Record(1, 0, None, b"")])
        )

    async def look(broker: Broker) -> None:
        assert committed(await ready(broker)) == {TopicPartition("t", 0): 5}

    run(damage, look)
    assert sum("left out record" in message for message in caplog.messages) == 2


def test_commits_that_wait_together_are_written_together() -> None:
    async def commit(broker: Broker) -> None:
        groups = await ready(broker)
        shard = groups._shards[next(iter(groups._shards))]
        replies = await asyncio.gather(*(groups.commit("g", committing(offset)) for offset in range(100)))
        assert {reply.error for reply in replies} == {ErrorCode.none}
        assert committed(groups) == {TopicPartition("t", 0): 99}
        log = shard.partition.log
        assert len(list(log.batches(0, log.log_end_offset))) < 10

    run(commit)


def test_after_a_write_that_is_not_committed_in_time_the_log_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def commit(broker: Broker) -> None:
        groups = await ready(broker)
        await broker.controller.create_topics([NewTopic("t", 1)])
        partition = groups.shard("g").partition
        with monkeypatch.context() as patch:
            patch.setattr(coordinator_shard, "APPEND_S_MAX", 0.05)
            patch.setattr(partition, "committed", lambda _end_offset: asyncio.sleep(60))
            with pytest.raises(ApiError) as refused:
                await groups.commit("g", committing(5))
        assert refused.value.code is ErrorCode.not_coordinator
        assert committed(await ready(broker)) == {TopicPartition("t", 0): 5}, "it was in the log all the same"

    run(commit)


def test_no_more_than_so_many_writes_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_shard, "WRITES_MAX", 3)

    async def commit(broker: Broker) -> None:
        groups = await ready(broker)
        await broker.controller.create_topics([NewTopic("t", 1)])
        outcomes = await asyncio.gather(
            *(groups.commit("g", committing(offset)) for offset in range(10)), return_exceptions=True
        )
        refused = [each for each in outcomes if isinstance(each, ApiError)]
        assert [each.code for each in refused] == [ErrorCode.coordinator_not_available] * 7
        assert committed(groups) == {TopicPartition("t", 0): 2}, "what was taken is written"

    run(commit)


def test_who_is_cut_off_while_it_loads_sends_clients_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(broker: Broker) -> None:
        groups = await ready(broker)
        groups.shard("g").is_loading = True
        monkeypatch.setattr(Lifecycle, "has_lease", property(lambda _: False))
        with pytest.raises(ApiError) as refused:
            groups.shard("g")
        assert refused.value.code is ErrorCode.not_coordinator
        monkeypatch.setattr(Lifecycle, "has_lease", property(lambda _: True))
        with pytest.raises(ApiError) as refused:
            groups.shard("g")
        assert refused.value.code is ErrorCode.coordinator_load_in_progress

    run(ask)


def test_who_asks_for_all_groups_is_answered_though_some_cannot_be_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coordinator, "LOAD_S_MAX", 0.05)

    async def ask(broker: Broker) -> None:
        groups = await ready(broker)
        await broker.controller.create_topics([NewTopic("t", 1)])
        await groups.commit("g", committing(5))
        partition = groups.shard("g").partition
        monkeypatch.setattr(partition, "committed", lambda _end_offset: asyncio.Event().wait())
        begin_epoch(partition, partition.leader_epoch + 1)
        answer = await InProcess(broker).ask(LIST_GROUPS, 4, {})
        assert (answer.error_code, answer.groups) == (ErrorCode.coordinator_load_in_progress, ())

    run(ask)


def test_without_the_offsets_topic_there_is_no_coordinator_and_no_group() -> None:
    async def ask(broker: Broker) -> None:
        assert broker.groups.groups() == []
        with pytest.raises(ApiError) as refused:
            await broker.groups.join("g", joining())
        assert refused.value.code is ErrorCode.coordinator_not_available
        found = await asyncio.gather(*(broker.groups.coordinator("g") for _ in range(5)))
        assert {(each.id, each.port) for each in found} == {(1, broker.port)}
        assert len(broker.controller.image.topics[OFFSETS_TOPIC].partitions) == 4

    run(ask)


def test_stopping_answers_those_who_wait() -> None:
    waiting: list[asyncio.Task[JoinReply]] = []

    async def wait(broker: Broker) -> None:
        groups = await ready(broker)
        await become_stable(groups, await groups.join("g", joining()))
        waiting.append(asyncio.create_task(groups.join("g", joining())))
        await asyncio.sleep(0)

    async def look(broker: Broker) -> None:
        with pytest.raises(ApiError):
            await waiting[0]

    run(wait, look)


def test_leaving_empties_the_group() -> None:
    async def leave(broker: Broker) -> None:
        groups = await ready(broker)
        reply = await groups.join("g", joining())
        await become_stable(groups, reply)
        left = await groups.leave("g", [LeavingMember(reply.member_id), LeavingMember("nobody")])
        assert left.members == (ErrorCode.none, ErrorCode.unknown_member_id)

    async def look(broker: Broker) -> None:
        group = (await ready(broker)).maybe_group("g")
        assert group is not None
        assert (group.state, group.generation_id) == (GroupState.EMPTY, 2)

    run(leave, look)
