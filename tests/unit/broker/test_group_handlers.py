"""The handlers of consumer groups, asked with real frames in the versions that differ."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from penstock.broker.lifecycle import Lifecycle
from penstock.metadata.assignments import NewTopic
from penstock.types import ApiError, ErrorCode
from tests.unit.broker.in_process import InProcess, with_broker

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP = 8, 9, 10, 11, 12, 13
SYNC_GROUP, DESCRIBE_GROUPS, LIST_GROUPS, DELETE_GROUPS, OFFSET_DELETE = 14, 15, 16, 42, 47
SUBSCRIBED_TO_T = b"\x00\x00" + (1).to_bytes(4) + b"\x00\x01t" + b"\xff\xff\xff\xff"


async def prepare(broker: InProcess) -> None:
    await broker.broker.controller.create_topics([NewTopic("t", 2), NewTopic("u", 1)])
    found = await broker.ask(FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["g", "h"]})
    assert {one.error_code for one in found.coordinators} == {ErrorCode.none}


def join_body(member_id: str = "", **fields: Any) -> dict[str, Any]:
    return {
        "group_id": "g",
        "session_timeout": timedelta(seconds=10),
        "rebalance_timeout": timedelta(seconds=10),
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIBED_TO_T}],
        **fields,
    }


async def join(broker: InProcess, version: int = 9, **fields: Any) -> Any:
    joined = await broker.ask(JOIN_GROUP, version, join_body(**fields))
    if joined.error_code is ErrorCode.member_id_required:
        joined = await broker.ask(JOIN_GROUP, version, join_body(joined.member_id, **fields))
    return joined


async def join_and_sync(broker: InProcess, version: int = 9, sync_version: int = 5, **fields: Any) -> Any:
    joined = await join(broker, version, **fields)
    assert joined.error_code is ErrorCode.none
    synced = await broker.ask(
        SYNC_GROUP,
        sync_version,
        {
            "group_id": "g",
            "generation_id": joined.generation_id,
            "member_id": joined.member_id,
            "group_instance_id": fields.get("group_instance_id"),
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [{"member_id": joined.member_id, "assignment": b"mine"}],
        },
    )
    assert (synced.error_code, synced.assignment) == (ErrorCode.none, b"mine")
    return joined


def commit_body(offset: int, joined: Any = None, **fields: Any) -> dict[str, Any]:
    topic = fields.pop("topic", "t")
    return {
        "group_id": "g",
        "generation_id_or_member_epoch": -1 if joined is None else joined.generation_id,
        "member_id": "" if joined is None else joined.member_id,
        "retention_time": timedelta(milliseconds=-1),
        "topics": [
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": index,
                        "committed_offset": offset,
                        "committed_leader_epoch": 3,
                        "committed_metadata": fields.get("metadata", "note"),
                    }
                    for index in fields.get("partitions", (0,))
                ],
            }
        ],
    }


def outcomes(answer: Any) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic.name, one.partition_index): one.error_code
        for topic in answer.topics
        for one in topic.partitions
    }


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_syncs_lives_and_leaves_in_every_version(version: int) -> None:
    async def work(broker: InProcess) -> None:
        await prepare(broker)
        joined = await join_and_sync(broker, version, min(version, 5))
        assert (joined.leader, joined.protocol_name) == (joined.member_id, "range")
        assert [(one.member_id, one.metadata) for one in joined.members] == [
            (joined.member_id, SUBSCRIBED_TO_T)
        ]
        assert joined.member_id.startswith("tester-")
        who = {"group_id": "g", "generation_id": joined.generation_id, "member_id": joined.member_id}
        beat = await broker.ask(HEARTBEAT, min(version, 4), who)
        assert beat.error_code is ErrorCode.none
        leaving = {
            "group_id": "g",
            "member_id": joined.member_id,
            "members": [{"member_id": joined.member_id}],
        }
        left = await broker.ask(LEAVE_GROUP, min(version, 5), leaving)
        assert left.error_code is ErrorCode.none
        again = await broker.ask(LEAVE_GROUP, min(version, 5), leaving)
        if version < 3:
            assert again.error_code is ErrorCode.unknown_member_id
        else:
            assert [one.error_code for one in again.members] == [ErrorCode.unknown_member_id]

    with_broker(work)


def test_a_coordinator_that_loads_believes_that_a_member_lives() -> None:
    async def work(broker: InProcess) -> None:
        await prepare(broker)
        joined = await join_and_sync(broker)
        shard = broker.broker.groups.shard("g")
        shard.is_loading = True
        who = {"group_id": "g", "generation_id": joined.generation_id, "member_id": joined.member_id}
        assert (await broker.ask(HEARTBEAT, 4, who)).error_code is ErrorCode.none
        shard.is_loading = False

    with_broker(work)


def test_errors_of_joining() -> None:
    async def work(broker: InProcess) -> None:
        await prepare(broker)

        async def error(version: int = 9, **fields: Any) -> ErrorCode:
            return (await broker.ask(JOIN_GROUP, version, join_body(**fields))).error_code

        for version in (0, 9):  # the name of the protocol is null only from version 7 on
            assert await error(version, group_id="") is ErrorCode.invalid_group_id
        assert await error(session_timeout=timedelta(seconds=5)) is ErrorCode.invalid_session_timeout
        assert await error(session_timeout=timedelta(minutes=31)) is ErrorCode.invalid_session_timeout
        assert await error(member_id="nobody") is ErrorCode.unknown_member_id
        assert await error(protocols=[]) is ErrorCode.inconsistent_group_protocol
        assert await error(protocol_type="") is ErrorCode.inconsistent_group_protocol
        assert await error(group_id="g" * 40_000) is ErrorCode.invalid_group_id
        assert await error(protocol_type="x" * 40_000) is ErrorCode.invalid_request
        no_protocol = {"group_id": "g", "generation_id": 1, "member_id": "m"}
        refused = await broker.ask(SYNC_GROUP, 5, no_protocol)
        assert refused.error_code is ErrorCode.inconsistent_group_protocol
        for key, version in ((SYNC_GROUP, 4), (HEARTBEAT, 4)):
            assert (await broker.ask(key, version, no_protocol)).error_code is ErrorCode.unknown_member_id
            nameless = {**no_protocol, "group_id": ""}
            assert (await broker.ask(key, version, nameless)).error_code is ErrorCode.invalid_group_id

    with_broker(work)


def test_leaving_a_group_that_does_not_exist() -> None:
    async def work(broker: InProcess) -> None:
        await prepare(broker)
        body = {"group_id": "g", "member_id": "m", "members": [{"member_id": "m"}, {"member_id": "n"}]}
        for version in range(3):
            old = await broker.ask(LEAVE_GROUP, version, body)
            assert old.error_code is ErrorCode.unknown_member_id
        for version in range(3, 6):
            new = await broker.ask(LEAVE_GROUP, version, body)
            assert new.error_code is ErrorCode.none
            assert [(one.member_id, one.error_code) for one in new.members] == [
                ("m", ErrorCode.unknown_member_id),
                ("n", ErrorCode.unknown_member_id),
            ]

    with_broker(work)


def test_refused_joins_are_not_listed() -> None:
    async def work(broker: InProcess) -> None:
        await prepare(broker)
        for fields in ({"protocols": []}, {"session_timeout": timedelta(milliseconds=1)}):
            refused = await broker.ask(JOIN_GROUP, 9, join_body(**fields))
            assert refused.error_code is not ErrorCode.none
        assert (await broker.ask(LIST_GROUPS, 5, {})).groups == ()

    with_broker(work)


def test_a_static_member_keeps_its_assignment_over_a_restart() -> None:
    async def work(broker: InProcess) -> None:
        await prepare(broker)
        first = await join_and_sync(broker, group_instance_id="i")
        second = await join(broker, group_instance_id="i")
        assert second.generation_id == first.generation_id
        assert second.member_id != first.member_id
        assert second.member_id.startswith("i-")
        assert second.skip_assignment
        beat = {"group_id": "g", "generation_id": 1, "member_id": first.member_id, "group_instance_id": "i"}
        assert (await broker.ask(HEARTBEAT, 3, beat)).error_code is ErrorCode.fenced_instance_id

    with_broker(work)


@pytest.mark.parametrize("version", range(2, 9))
def test_offsets_are_committed_and_fetched_in_every_version(version: int) -> None:
    async def work(broker: InProcess) -> None:
        await prepare(broker)
        answer = await broker.ask(OFFSET_COMMIT, version, commit_body(7, partitions=(0, 5)))
        assert outcomes(answer) == {("t", 0): ErrorCode.none, ("t", 5): ErrorCode.unknown_topic_or_partition}
        unknown = await broker.ask(OFFSET_COMMIT, version, commit_body(7, topic="nothing"))
        assert outcomes(unknown) == {("nothing", 0): ErrorCode.unknown_topic_or_partition}
        for fetch_version in range(1, 9):
            asked = [{"name": "t", "partition_indexes": [0, 1]}]
            fetched = await fetch(broker, fetch_version, asked)
            (topic,) = fetched.topics
            assert [(one.committed_offset, one.metadata) for one in topic.partitions] == [
                (7, "note"),
                (-1, ""),
            ]
            assert {one.error_code for one in topic.partitions} == {ErrorCode.none}
            if fetch_version >= 5:
                assert topic.partitions[0].committed_leader_epoch == (3 if version >= 6 else -1)
            if fetch_version >= 2:
                everything = await fetch(broker, fetch_version, None)
                assert [len(topic.partitions) for topic in everything.topics] == [1]

    with_broker(work)


async def fetch(broker: InProcess, version: int, topics: Any, group_id: str = "g") -> Any:
    if version < 8:
        return await broker.ask(OFFSET_FETCH, version, {"group_id": group_id, "topics": topics})
    body = {"groups": [{"group_id": group_id, "topics": topics}], "require_stable": True}
    return (await broker.ask(OFFSET_FETCH, version, body)).groups[0]


@pytest.mark.parametrize("version", [7, 8])
def test_stable_offsets_are_told_by_whoever_is_known_to_coordinate(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator that was replaced while it stood still has lost its lease, and cannot write."""

    async def ask(broker: InProcess, *, require_stable: bool) -> Any:
        group = {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
        body = {"groups": [group]} if version == 8 else group
        answer = await broker.ask(OFFSET_FETCH, version, {**body, "require_stable": require_stable})
        return answer.groups[0] if version == 8 else answer

    async def work(broker: InProcess) -> None:
        await prepare(broker)
        await broker.ask(OFFSET_COMMIT, 8, commit_body(7))
        partition = broker.broker.groups.shard("g").partition
        monkeypatch.setattr(Lifecycle, "has_lease", property(lambda _: True))
        end_offset = partition.log.log_end_offset
        assert (await ask(broker, require_stable=True)).topics[0].partitions[0].committed_offset == 7
        assert partition.log.log_end_offset == end_offset, "nobody can have taken its place"
        monkeypatch.setattr(Lifecycle, "has_lease", property(lambda _: False))
        assert (await ask(broker, require_stable=False)).topics[0].partitions[0].committed_offset == 7
        assert partition.log.log_end_offset == end_offset, "who does not decide by it may be told old news"
        assert (await ask(broker, require_stable=True)).topics[0].partitions[0].committed_offset == 7
        assert partition.log.log_end_offset == end_offset + 1, "it has found out"

        async def refused(_batch: bytes) -> int:
            raise ApiError(ErrorCode.not_leader_or_follower)

        monkeypatch.setattr(partition, "append_own", refused)
        answer = await ask(broker, require_stable=True)
        assert answer.error_code is ErrorCode.not_coordinator
        assert answer.topics[0].partitions[0].committed_offset == -1
        monkeypatch.undo()

    with_broker(work)


def test_stable_offsets_are_not_told_from_memory_when_another_one_is_known_to_lead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The metadata say so a moment before the partition is told, and the lease may last for longer."""

    async def work(broker: InProcess) -> None:
        await prepare(broker)
        await broker.ask(OFFSET_COMMIT, 8, commit_body(7))
        groups = broker.broker.groups
        monkeypatch.setattr(Lifecycle, "has_lease", property(lambda _: True))
        assert groups.is_proven("g")
        shard, controller = groups.shard("g"), broker.broker.controller
        topic = controller.image.topics[groups.topic]
        index = shard.partition.index
        moved = topic.partitions[index]._replace(leader_epoch=shard.leader_epoch + 1)
        known = replace(topic, partitions={**topic.partitions, index: moved})
        image = replace(controller.image, topics={**controller.image.topics, groups.topic: known})
        monkeypatch.setattr(type(controller), "image", property(lambda _: image))
        assert not groups.is_proven("g")
        monkeypatch.undo()

    with_broker(work)


def test_who_may_commit() -> None:
    async def work(broker: InProcess) -> None:
        await prepare(broker)
        joined = await join_and_sync(broker)
        mine = await broker.ask(OFFSET_COMMIT, 8, commit_body(7, joined))
        assert outcomes(mine) == {("t", 0): ErrorCode.none}
        others = await broker.ask(OFFSET_COMMIT, 8, commit_body(8))
        assert outcomes(others) == {("t", 0): ErrorCode.unknown_member_id}
        long = await broker.ask(OFFSET_COMMIT, 8, commit_body(9, joined, metadata="x" * 4097))
        assert outcomes(long) == {("t", 0): ErrorCode.offset_metadata_too_large}
        null = await broker.ask(OFFSET_COMMIT, 8, commit_body(9, joined, metadata=None))
        assert outcomes(null) == {("t", 0): ErrorCode.none}
        unnamed = await broker.ask(OFFSET_COMMIT, 2, {**commit_body(3), "group_id": ""})
        assert outcomes(unnamed) == {("t", 0): ErrorCode.none}

    with_broker(work)


def test_offsets_of_groups_that_cannot_be_served() -> None:
    async def work(broker: InProcess) -> None:
        asked = [{"name": "t", "partition_indexes": [0]}]
        for version in (1, 2, 8):
            answer = await fetch(broker, version, asked)
            code = answer.topics[0].partitions[0].error_code if version == 1 else answer.error_code
            assert code is ErrorCode.coordinator_not_available

    with_broker(work)


def test_listing_and_its_filters() -> None:
    async def work(broker: InProcess) -> None:
        assert (await broker.ask(LIST_GROUPS, 5, {})).groups == ()
        await prepare(broker)
        await join_and_sync(broker)
        await broker.ask(OFFSET_COMMIT, 8, {**commit_body(1), "group_id": "h"})

        async def listed(version: int = 5, **filters: Any) -> set[str]:
            answer = await broker.ask(LIST_GROUPS, version, filters)
            assert answer.error_code is ErrorCode.none
            return {group.group_id for group in answer.groups}

        assert await listed(0) == {"g", "h"}
        assert await listed(states_filter=["stable"]) == {"g"}
        assert await listed(states_filter=["Empty", "Dead"]) == {"h"}
        assert await listed(types_filter=["classic"]) == {"g", "h"}
        assert await listed(types_filter=["consumer"]) == set()
        newest = await broker.ask(LIST_GROUPS, 5, {"states_filter": ["Stable"]})
        (group,) = newest.groups
        assert (group.protocol_type, group.group_state, group.group_type) == ("consumer", "Stable", "Classic")

    with_broker(work)


def test_describing() -> None:
    async def work(broker: InProcess) -> None:
        await prepare(broker)
        joined = await join_and_sync(broker)
        for version in range(6):
            body = {"groups": ["g", "nothing"], "include_authorized_operations": True}
            stable, dead = (await broker.ask(DESCRIBE_GROUPS, version, body)).groups
            assert (stable.group_state, stable.protocol_type, stable.protocol_data) == (
                "Stable", "consumer", "range",
            )  # fmt: skip
            (member,) = stable.members
            assert (member.member_id, member.client_id, member.client_host) == (
                joined.member_id, "tester", "127.0.0.1",
            )  # fmt: skip
            assert (member.member_metadata, member.member_assignment) == (SUBSCRIBED_TO_T, b"mine")
            assert (dead.group_state, dead.error_code, dead.members) == ("Dead", ErrorCode.none, ())
            if version >= 3:
                assert stable.authorized_operations == 1 << 3 | 1 << 6 | 1 << 8

    with_broker(work)


def test_deleting_groups_and_offsets() -> None:
    async def work(broker: InProcess) -> None:
        await prepare(broker)
        await broker.ask(OFFSET_COMMIT, 8, {**commit_body(1), "group_id": "h"})
        joined = await join_and_sync(broker)
        await broker.ask(OFFSET_COMMIT, 8, commit_body(1, joined))
        await broker.ask(OFFSET_COMMIT, 8, commit_body(1, joined, topic="u"))
        topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in ("t", "u", "nothing")]
        deleted = await broker.ask(OFFSET_DELETE, 0, {"group_id": "g", "topics": topics})
        assert outcomes(deleted) == {
            ("t", 0): ErrorCode.group_subscribed_to_topic,
            ("u", 0): ErrorCode.none,
            ("nothing", 0): ErrorCode.unknown_topic_or_partition,
        }
        assert [topic.name for topic in (await fetch(broker, 8, None)).topics] == ["t"]
        unknown = await broker.ask(OFFSET_DELETE, 0, {"group_id": "nothing", "topics": topics})
        assert unknown.error_code is ErrorCode.group_id_not_found
        answer = await broker.ask(DELETE_GROUPS, 2, {"groups_names": ["g", "h", "nothing"]})
        assert [one.error_code for one in answer.results] == [
            ErrorCode.non_empty_group, ErrorCode.none, ErrorCode.group_id_not_found,
        ]  # fmt: skip
        assert (await fetch(broker, 8, None, "h")).topics == ()

    with_broker(work)


def test_finding_coordinators() -> None:
    async def work(broker: InProcess) -> None:
        port = broker.broker.port
        old = await broker.ask(FIND_COORDINATOR, 0, {"key": "g"})
        assert (old.error_code, old.node_id, old.host, old.port) == (ErrorCode.none, 1, "127.0.0.1", port)
        one = await broker.ask(FIND_COORDINATOR, 3, {"key": "g", "key_type": 0})
        assert (one.error_code, one.node_id, one.port) == (ErrorCode.none, 1, port)
        transaction = await broker.ask(FIND_COORDINATOR, 2, {"key": "x", "key_type": 1})
        assert (transaction.error_code, transaction.node_id) == (ErrorCode.none, 1)
        unknown = await broker.ask(FIND_COORDINATOR, 4, {"key_type": 7, "coordinator_keys": ["a", "b"]})
        assert [(each.key, each.error_code, each.node_id) for each in unknown.coordinators] == [
            ("a", ErrorCode.invalid_request, -1), ("b", ErrorCode.invalid_request, -1),
        ]  # fmt: skip

    with_broker(work)
