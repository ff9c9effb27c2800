"""A request costs the same in a large group as in a small one, unless it ends a phase."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.groups.limits import GroupLimits
from penstock.groups.messages import CommitRequest, JoinRequest, LeavingMember, Producer, SyncRequest, Write
from penstock.groups.offsets import CommittedOffset
from penstock.groups.shard import Shard
from penstock.groups.states import GroupState
from penstock.types import ErrorCode, TopicPartition
from tests.support.steps import steps

if TYPE_CHECKING:
    from penstock.groups.group import Group

SMALL, LARGE = 20, 500


def request(number: int, member_id: str = "") -> JoinRequest:
    return JoinRequest(
        member_id=member_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="x",
        protocols=(("range", b"r"), ("sticky", b"s")),
        requires_known_member_id=False,
        fresh_member_id=f"m{number}",
    )


class Scene:
    def __init__(self) -> None:
        self.shard = Shard(GroupLimits())
        self.now_ms = 0

    @property
    def group(self) -> Group:
        return self.shard.groups["g"]

    def join(self, number: int, member_id: str = "") -> None:
        self.shard.join("g", number, request(number, member_id), self.now_ms)
        self.group.next_deadline()

    def commit(self, number: int) -> None:
        offsets = {TopicPartition("t", 0): CommittedOffset(offset=1, commit_timestamp_ms=0)}
        asked = CommitRequest(member_id=f"m{number}", generation_id=self.group.generation_id, offsets=offsets)
        self.shard.commit("g", number, asked, self.now_ms)
        self.group.next_deadline()

    def leave(self, number: int) -> None:
        self.shard.leave("g", number, [LeavingMember(f"m{number}")], self.now_ms)
        self.group.next_deadline()

    def expire(self) -> None:
        self.shard.expire(self.group, self.now_ms)
        self.group.next_deadline()

    def heartbeat(self, number: int) -> None:
        self.shard.heartbeat("g", f"m{number}", None, self.group.generation_id, self.now_ms)


def costs(size: int) -> dict[str, int]:
    scene, found = Scene(), {}
    for number in range(size - 1):
        scene.join(number)
    found["join"] = steps(lambda: scene.join(size - 1))
    for _ in range(2):  # the second time nobody else has come
        scene.now_ms += 100
        scene.expire()
    sync = SyncRequest(member_id="m0", generation_id=scene.group.generation_id)
    (write,) = scene.shard.sync("g", 0, sync, scene.now_ms)
    assert isinstance(write, Write)
    scene.shard.written(write, ErrorCode.none, scene.now_ms)
    assert scene.group.state is GroupState.STABLE
    assert len(scene.group.roster) == size
    found["commit"] = steps(lambda: scene.commit(5))
    found["heartbeat"] = steps(lambda: scene.heartbeat(5))
    scene.leave(1)  # begins a rebalance
    found["join again"] = steps(lambda: scene.join(2, "m2"))
    found["leave"] = steps(lambda: scene.leave(3))
    return found


def test_requests_cost_the_same_in_large_groups() -> None:
    assert costs(LARGE) == costs(SMALL)


def transaction_of_one_among(count: int) -> int:
    shard = Shard(GroupLimits())
    offset = CommittedOffset(offset=1, commit_timestamp_ms=0)
    for number in range(count):
        request = CommitRequest(
            offsets={TopicPartition("t", 0): offset}, producer=None if number else Producer(7, 0)
        )
        for effect in shard.commit(f"g{number}", 1, request, 0):
            assert isinstance(effect, Write)
            shard.written(effect, ErrorCode.none, 0)
    ending = steps(lambda: shard.transaction_ended(7, is_commit=True))
    assert TopicPartition("t", 0) in shard.groups["g0"].offsets.committed
    return ending


def test_the_end_of_a_transaction_does_not_look_at_groups_that_are_not_in_it() -> None:
    assert transaction_of_one_among(LARGE) == transaction_of_one_among(SMALL)
