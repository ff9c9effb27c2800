"""A group as its record in `__consumer_offsets`, and back.

Written is a group that is stable or empty, never one in the middle of a rebalance: after a crash its members
find the last generation that was complete, and rebalance from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.groups import records
from penstock.groups.member import Member
from penstock.groups.states import GroupState
from penstock.wire.fields import RecordError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.groups.group import Group
    from penstock.groups.messages import KeyValue


def record_of(group: Group, assignments: Mapping[str, bytes]) -> KeyValue:
    value = records.GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation_id=group.generation_id,
        protocol_name=group.protocol_name,
        leader=group.roster.leader_id,
        state_timestamp_ms=group.state_timestamp_ms,
        members=tuple(
            records.MemberValue(
                member_id=one.member_id,
                group_instance_id=one.group_instance_id,
                client_id=one.client_id,
                client_host=one.client_host,
                rebalance_timeout_ms=one.rebalance_timeout_ms,
                session_timeout_ms=one.session_timeout_ms,
                subscription=one.metadata_for(group.protocol_name),
                assignment=assignments.get(one.member_id, b""),
            )
            for one in group.roster
        ),
    )
    return records.encode_group_key(group.group_id), records.encode_group_value(value)


def restore(group: Group, value: records.GroupMetadataValue, now_ms: int) -> None:
    """Fill a new group; the sessions of its members begin again. Raises RecordError if they contradict."""
    _check_unique([one.member_id for one in value.members], "members")
    _check_unique(
        [one.group_instance_id for one in value.members if one.group_instance_id is not None], "instances"
    )
    group.protocol_type = value.protocol_type or None
    group.generation_id = value.generation_id
    group.protocol_name = value.protocol_name
    group.state_timestamp_ms = value.state_timestamp_ms if value.state_timestamp_ms >= 0 else now_ms
    group.state = GroupState.STABLE if value.members else GroupState.EMPTY
    for one in value.members:
        member = Member(
            member_id=one.member_id,
            group_instance_id=one.group_instance_id,
            client_id=one.client_id,
            client_host=one.client_host,
            session_timeout_ms=one.session_timeout_ms,
            rebalance_timeout_ms=one.rebalance_timeout_ms,
            protocols=((value.protocol_name or "", one.subscription),),
            assignment=one.assignment,
        )
        group.roster.add(member)
        group.sessions.refresh(member, now_ms)
    if value.leader is not None and group.roster.get(value.leader) is not None:
        group.roster.leader_id = value.leader
    group.read_subscriptions()


def _check_unique(names: Sequence[str], what: str) -> None:
    if len(set(names)) < len(names):
        raise RecordError(f"two {what} of a group have the same id")
