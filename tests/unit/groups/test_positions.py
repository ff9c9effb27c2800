"""Which committed offsets hold back consumed retention, and which never expire."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.groups import marks
from penstock.groups.limits import GroupLimits
from penstock.groups.messages import Answer, CommitRequest, DeleteReply, Producer, Write
from penstock.groups.offsets import CommittedOffset
from penstock.groups.positions import positions_of
from penstock.groups.shard import Shard
from penstock.types import ErrorCode, TopicPartition

if TYPE_CHECKING:
    from penstock.groups.group import Group

NEWS, MORE, OTHER = TopicPartition("news", 0), TopicPartition("news", 1), TopicPartition("other", 0)
PRODUCER = Producer(7, 0)
LIMITS = GroupLimits()


def at(offset: int, metadata: str = "", **more: int) -> CommittedOffset:
    return CommittedOffset(offset=offset, metadata=metadata, commit_timestamp_ms=0, **more)


def commit(
    shard: Shard, group_id: str, offsets: dict[TopicPartition, CommittedOffset], in_transaction: bool = False
) -> None:
    producer = PRODUCER if in_transaction else None
    request = CommitRequest(offsets=offsets, producer=producer)
    for effect in shard.commit(group_id, 1, request, 0):
        assert isinstance(effect, Write)
        shard.written(effect, ErrorCode.none, 0)


def positions(shard: Shard) -> dict[str, dict[int, int]]:
    return positions_of([*shard.groups.values(), *shard.leaving], {"news"}).get("news", {})


def test_positions_by_group_and_partition_of_the_topics_asked_for() -> None:
    shard = Shard(LIMITS)
    commit(shard, "a", {NEWS: at(5), MORE: at(6), OTHER: at(7)})
    commit(shard, "b", {NEWS: at(1, marks.SUBSCRIPTION)})
    commit(shard, "c", {OTHER: at(1)})
    assert positions(shard) == {"a": {0: 5, 1: 6}, "b": {0: 1}}


def test_what_publishers_and_sinks_remember_is_no_position() -> None:
    shard = Shard(LIMITS)
    commit(shard, "p", {NEWS: at(5, marks.with_state(marks.PUBLISHER, {"seq": 3}))})
    commit(shard, "s", {NEWS: at(5, marks.with_state(marks.SINK, {"batch": 3}))})
    assert positions(shard) == {}


def test_a_position_counts_from_when_its_transaction_wrote_it() -> None:
    shard = Shard(LIMITS)
    commit(shard, "new", {NEWS: at(9)}, in_transaction=True)
    commit(shard, "old", {NEWS: at(3)})
    commit(shard, "old", {NEWS: at(8)}, in_transaction=True)
    assert positions(shard) == {"new": {0: 9}, "old": {0: 3}}
    shard.transaction_ended(PRODUCER.id, is_commit=True)
    assert positions(shard) == {"new": {0: 9}, "old": {0: 8}}


def test_a_position_that_moves_back_in_a_transaction_counts_at_once() -> None:
    shard = Shard(LIMITS)
    commit(shard, "a", {NEWS: at(8)})
    commit(shard, "a", {NEWS: at(3)}, in_transaction=True)
    assert positions(shard) == {"a": {0: 3}}


@pytest.mark.parametrize("is_written", [True, False])
def test_a_group_counts_until_its_deletion_is_written(is_written: bool) -> None:
    shard = Shard(LIMITS)
    commit(shard, "a", {NEWS: at(5)})
    (write,) = shard.delete_group("a", 2)
    assert isinstance(write, Write)
    assert positions(shard) == {"a": {0: 5}}
    error = ErrorCode.none if is_written else ErrorCode.not_coordinator
    assert shard.written(write, error, 0) == [Answer(2, DeleteReply(error))]
    assert positions(shard) == ({} if is_written else {"a": {0: 5}})
    assert shard.leaving == []


def expire(offsets: dict[TopicPartition, CommittedOffset], now_ms: int) -> Group | None:
    shard = Shard(LIMITS)
    commit(shard, "g", offsets)
    for effect in shard.expire_offsets(now_ms):
        assert isinstance(effect, Write)
        shard.written(effect, ErrorCode.none, now_ms)
    return shard.groups.get("g")


@pytest.mark.parametrize("mark", [marks.SUBSCRIPTION, marks.PUBLISHER, marks.SINK])
def test_marked_offsets_stay_for_ever(mark: str) -> None:
    group = expire(
        {NEWS: at(1, mark), MORE: at(2, f"{mark} {{}}", expire_timestamp_ms=1), OTHER: at(3)}, now_ms=1 << 50
    )
    assert group is not None
    assert set(group.offsets.committed) == {NEWS, MORE}


def test_offsets_without_a_mark_expire() -> None:
    assert expire({NEWS: at(1, "penstock.subscriptions")}, now_ms=1 << 50) is None
