"""Who may commit and delete offsets, and when offsets expire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.groups.marks import is_durable
from penstock.groups.states import GroupState
from penstock.groups.subscription import CONSUMER_PROTOCOL_TYPE
from penstock.types import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.groups.group import Group
    from penstock.groups.limits import GroupLimits
    from penstock.groups.messages import CommitRequest
    from penstock.groups.offsets import CommittedOffset
    from penstock.types import TopicPartition


def refuse_commit(group: Group | None, request: CommitRequest, now_ms: int) -> ErrorCode:
    """Why the group does not take the commit; a member's commit also counts as its heartbeat."""
    if group is None or (request.generation_id < 0 and group.state is GroupState.EMPTY):
        # Not a member of anything: a consumer that assigns itself, or an administrator.
        return ErrorCode.none if request.generation_id < 0 else ErrorCode.illegal_generation
    is_transactional = request.producer is not None
    if request.generation_id < 0 and not request.member_id and request.group_instance_id is None:
        # Before version 3 a transaction could not say for which member: its transactional id must do.
        return ErrorCode.none if is_transactional else ErrorCode.unknown_member_id
    member = group.roster.find(request.member_id, request.group_instance_id)
    if isinstance(member, ErrorCode):
        return member
    if request.generation_id != group.generation_id:
        return ErrorCode.illegal_generation
    if group.state is GroupState.COMPLETING_REBALANCE and not is_transactional:
        return ErrorCode.rebalance_in_progress
    group.sessions.refresh(member, now_ms)
    return ErrorCode.none


def check_metadata(
    offsets: Mapping[TopicPartition, CommittedOffset], limits: GroupLimits
) -> dict[TopicPartition, ErrorCode]:
    return {
        partition: ErrorCode.none
        if len(offset.metadata.encode()) <= limits.offset_metadata_bytes_max
        else ErrorCode.offset_metadata_too_large
        for partition, offset in offsets.items()
    }


def refuse_delete(group: Group) -> ErrorCode:
    """Why no offset of the group may be deleted. Subscribed topics are a matter of each partition."""
    if group.state is GroupState.EMPTY or group.protocol_type == CONSUMER_PROTOCOL_TYPE:
        return ErrorCode.none
    return ErrorCode.non_empty_group


def expired_offsets(group: Group, now_ms: int) -> list[TopicPartition]:
    """The offsets that nobody has used for the retention time.

    The time runs from when the group became empty; for topics that a living group no longer subscribes to,
    and for groups that never had members, from the commit. Some offsets are meant to stay: see marks.py.
    """

    def is_expired(partition: TopicPartition, offset: CommittedOffset) -> bool:
        if is_durable(offset.metadata):
            return False
        since_ms = offset.commit_timestamp_ms
        if len(group.roster):
            if group.state is not GroupState.STABLE or group.protocol_type != CONSUMER_PROTOCOL_TYPE:
                return False
            if group.is_subscribed_to(partition.topic):
                return False
        elif group.protocol_type is not None:
            since_ms = max(since_ms, group.state_timestamp_ms)
        if offset.expire_timestamp_ms is not None:
            return now_ms >= offset.expire_timestamp_ms
        return now_ms - since_ms >= group.limits.offsets_retention_ms

    return group.offsets.expired(is_expired) if group.state is not GroupState.DEAD else []
