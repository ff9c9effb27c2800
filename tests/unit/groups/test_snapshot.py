from __future__ import annotations

import pytest

from penstock.groups import records
from penstock.groups.limits import GroupLimits
from penstock.groups.records import GroupMetadataValue, MemberValue
from penstock.groups.shard import Shard
from penstock.wire.fields import RecordError


def member(member_id: str, instance_id: str | None = None) -> MemberValue:
    return MemberValue(
        member_id=member_id,
        group_instance_id=instance_id,
        client_id="c",
        client_host="h",
        rebalance_timeout_ms=60_000,
        session_timeout_ms=10_000,
        subscription=b"",
        assignment=b"",
    )


def replay(shard: Shard, *members: MemberValue) -> None:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation_id=1,
        protocol_name="range",
        leader="a",
        state_timestamp_ms=0,
        members=members,
    )
    shard.replay(records.encode_group_key("g"), records.encode_group_value(value), 0)


@pytest.mark.parametrize(
    "members",
    [(member("a"), member("a")), (member("a", "i"), member("b", "i"))],
    ids=["member ids", "instance ids"],
)
def test_a_record_with_the_same_id_twice_is_refused_as_a_whole(members: tuple[MemberValue, ...]) -> None:
    shard = Shard(GroupLimits())
    with pytest.raises(RecordError, match="same id"):
        replay(shard, *members)
    assert shard.groups == {}


def test_members_with_ids_of_their_own_are_restored() -> None:
    shard = Shard(GroupLimits())
    replay(shard, member("a", "i"), member("b"), member("c"))
    group = shard.groups["g"]
    assert [one.member_id for one in group.roster] == ["a", "b", "c"]
    assert group.next_deadline() == 10_000
