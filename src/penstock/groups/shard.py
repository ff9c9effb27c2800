"""All groups whose records live in one partition of `__consumer_offsets`.

Created when this node leads the partition: `replay` takes its records in order, `finish_loading` starts the
sessions, then requests may come. Every method returns effects; the driver delivers the answers, carries out
the writes in the order given, and calls `written` for each, also in that order. State that others can see
changes only there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.groups import commits, joining, records, snapshot
from penstock.groups.group import Group
from penstock.groups.messages import (
    Answer,
    CommitRequest,
    DeleteReply,
    Effect,
    GroupDeleted,
    JoinReply,
    JoinRequest,
    KeyValue,
    LeaveReply,
    LeavingMember,
    OffsetsCommitted,
    OffsetsPrepared,
    OffsetsRemoved,
    OffsetsReply,
    SyncReply,
    SyncRequest,
    Write,
)
from penstock.groups.states import GroupState
from penstock.types import ErrorCode, TopicPartition
from penstock.wire.fields import fits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set

    from penstock.groups.limits import GroupLimits
    from penstock.groups.offsets import CommittedOffset


class Shard:
    def __init__(self, limits: GroupLimits) -> None:
        self.limits = limits
        self.groups: dict[str, Group] = {}
        self.leaving: list[Group] = []
        """Those whose deletion is on its way to the log. It may fail, and then they never were away."""
        self._prepared: dict[int, set[str]] = {}
        """By producer id, the groups that its open transaction commits offsets of."""

    # Loading -------------------------------------------------------------------------------------------

    def replay(self, key: bytes, value: bytes | None, now_ms: int, producer_id: int | None = None) -> None:
        """Take one record of the log; `producer_id` is set in a batch that belongs to a transaction.

        Raises RecordError if it cannot be understood.
        """
        decoded = records.decode_key(key)
        group = self.groups.get(decoded.group_id)
        if isinstance(decoded, records.OffsetCommitKey):
            partition = TopicPartition(decoded.topic, decoded.partition)
            if value is not None:
                group = group or self._create(decoded.group_id, now_ms)
                offset = records.decode_offset_value(value)
                if producer_id is None:
                    group.offsets.commit(partition, offset)
                else:
                    self._prepare(group, producer_id, {partition: offset})
            elif group is not None:
                group.offsets.remove((partition,))
        elif value is not None:
            fresh = Group(decoded.group_id, self.limits, now_ms)
            snapshot.restore(fresh, records.decode_group_value(value), now_ms)
            if group is not None:
                fresh.offsets = group.offsets
            self.groups[decoded.group_id] = fresh
        elif group is not None:
            # The tombstones of its offsets precede it, but compaction may have taken them already.
            del self.groups[decoded.group_id]

    def finish_loading(self, now_ms: int) -> list[Effect]:
        """Start the sessions of all members, and shrink groups that a lowered limit no longer allows."""
        effects: list[Effect] = []
        for group in self.groups.values():
            for member in group.roster:
                group.sessions.refresh(member, now_ms)
            if len(group.roster) > self.limits.group_size_max:
                group.prepare_rebalance(now_ms)
                effects += group.take_effects()
        return effects

    # Membership ----------------------------------------------------------------------------------------

    def join(self, group_id: str, token: int, request: JoinRequest, now_ms: int) -> list[Effect]:
        error = ErrorCode.none
        if not group_id or not fits(group_id):
            error = ErrorCode.invalid_group_id
        elif not all(map(fits, _names_in(request))):
            error = ErrorCode.invalid_request
        elif not self._is_session_allowed(request.session_timeout_ms):
            error = ErrorCode.invalid_session_timeout
        elif group_id not in self.groups and request.member_id:
            error = ErrorCode.unknown_member_id
        if error is not ErrorCode.none:
            return [Answer(token, JoinReply(error=error, member_id=request.member_id))]
        # A group that lets nobody in is not kept, so that refused requests leave nothing behind.
        group = self.groups.get(group_id) or Group(group_id, self.limits, now_ms)
        effects = joining.join(group, token, self._within_limits(request), now_ms)
        if not _is_blank(group):
            self.groups[group_id] = group
        return effects

    def _within_limits(self, request: JoinRequest) -> JoinRequest:
        if request.rebalance_timeout_ms <= self.limits.rebalance_timeout_ms_max:
            return request
        return replace(request, rebalance_timeout_ms=self.limits.rebalance_timeout_ms_max)

    def _is_session_allowed(self, session_timeout_ms: int) -> bool:
        return self.limits.session_timeout_ms_min <= session_timeout_ms <= self.limits.session_timeout_ms_max

    def sync(self, group_id: str, token: int, request: SyncRequest, now_ms: int) -> list[Effect]:
        group = self.groups.get(group_id)
        if group is None:
            return [Answer(token, SyncReply(error=_unknown(group_id)))]
        return group.sync(token, request, now_ms)

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation_id: int, now_ms: int
    ) -> ErrorCode:
        group = self.groups.get(group_id)
        if group is None:
            return _unknown(group_id)
        return group.heartbeat(member_id, instance_id, generation_id, now_ms)

    def leave(self, group_id: str, token: int, members: Sequence[LeavingMember], now_ms: int) -> list[Effect]:
        group = self.groups.get(group_id)
        if group is None:
            if not group_id:
                return [Answer(token, LeaveReply(ErrorCode.invalid_group_id))]
            return [Answer(token, LeaveReply(members=(ErrorCode.unknown_member_id,) * len(members)))]
        effects = group.leave(token, members, now_ms)
        self._drop_if_blank(group)
        return effects

    def expire(self, group: Group, now_ms: int) -> list[Effect]:
        effects = group.expire(now_ms)
        self._drop_if_blank(group)
        return effects

    # Offsets -------------------------------------------------------------------------------------------

    def commit(self, group_id: str, token: int, request: CommitRequest, now_ms: int) -> list[Effect]:
        group = self.groups.get(group_id)
        error = commits.refuse_commit(group, request, now_ms)
        if not fits(group_id):
            error = ErrorCode.invalid_group_id
        if error is not ErrorCode.none:
            return [Answer(token, OffsetsReply(error))]
        reply = OffsetsReply(partitions=commits.check_metadata(request.offsets, self.limits))
        accepted = {
            partition: offset
            for partition, offset in request.offsets.items()
            if reply.partitions[partition] is ErrorCode.none
        }
        if not accepted:
            return [Answer(token, reply)]
        group = group or self._create(group_id, now_ms)
        written = tuple(
            (_offset_key(group_id, partition), records.encode_offset_value(offset))
            for partition, offset in accepted.items()
        )
        group.offsets.begin(accepted)
        if request.producer is None:
            return [Write(group, written, OffsetsCommitted(token, accepted, reply))]
        purpose = OffsetsPrepared(token, request.producer.id, accepted, reply)
        return [Write(group, written, purpose, request.producer)]

    def transaction_ended(self, producer_id: int, *, is_commit: bool) -> None:
        """The marker is written: what the transaction prepared counts, or never did."""
        for group_id in self._prepared.pop(producer_id, ()):
            group = self.groups.get(group_id)
            if group is not None:
                group.offsets.end_transaction(producer_id, is_commit=is_commit)
                self._drop_if_blank(group)

    def _prepare(
        self, group: Group, producer_id: int, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        group.offsets.prepare(producer_id, offsets)
        self._prepared.setdefault(producer_id, set()).add(group.group_id)

    def delete_offsets(self, group_id: str, token: int, wanted: Iterable[TopicPartition]) -> list[Effect]:
        group = self.groups.get(group_id)
        if group is None:
            return [Answer(token, OffsetsReply(ErrorCode.group_id_not_found))]
        error = commits.refuse_delete(group)
        if error is not ErrorCode.none:
            return [Answer(token, OffsetsReply(error))]
        outcome = {
            partition: ErrorCode.group_subscribed_to_topic
            if group.is_subscribed_to(partition.topic)
            else ErrorCode.none
            for partition in wanted
        }
        known = frozenset(group.offsets.known())
        removed = tuple(one for one, error in outcome.items() if error is ErrorCode.none and one in known)
        reply = OffsetsReply(partitions=outcome)
        if not removed:
            return [Answer(token, reply)]
        return [_removal(group, OffsetsRemoved(removed, token, reply))]

    def forget_topics(self, topics: Set[str]) -> list[Effect]:
        """The topics are gone: their offsets mean nothing to a later topic of the same name."""
        effects: list[Effect] = []
        for group in self.groups.values():
            gone = tuple(one for one in group.offsets.known() if one.topic in topics)
            if gone:
                effects.append(_removal(group, OffsetsRemoved(gone)))
        return effects

    def topics(self) -> set[str]:
        """The topics that some group has committed offsets of."""
        return {one.topic for group in self.groups.values() for one in group.offsets.committed}

    def expire_offsets(self, now_ms: int) -> list[Effect]:
        """The periodic sweep: expired offsets go, and so do empty groups that have none left."""
        effects: list[Effect] = []
        for group in list(self.groups.values()):
            expired = tuple(commits.expired_offsets(group, now_ms))
            is_idle = group.state is GroupState.EMPTY and not group.sessions.pending
            if is_idle and set(expired) == set(group.offsets.known()):
                effects += self._delete(group, None)
            elif expired:
                effects.append(_removal(group, OffsetsRemoved(expired)))
        return effects

    def delete_group(self, group_id: str, token: int) -> list[Effect]:
        group = self.groups.get(group_id)
        if group is None:
            return [Answer(token, DeleteReply(ErrorCode.group_id_not_found))]
        if group.state is not GroupState.EMPTY:
            return [Answer(token, DeleteReply(ErrorCode.non_empty_group))]
        return self._delete(group, token)

    def _delete(self, group: Group, token: int | None) -> list[Effect]:
        # It leaves the table at once: whoever joins from now on founds a new group, whose records follow.
        del self.groups[group.group_id]
        self.leaving.append(group)
        tombstones = [*_tombstones(group, group.offsets.known())]
        tombstones.append((records.encode_group_key(group.group_id), None))
        return [Write(group, tuple(tombstones), GroupDeleted(token))]

    # Writes --------------------------------------------------------------------------------------------

    def written(self, write: Write, error: ErrorCode, now_ms: int) -> list[Effect]:
        """The records of `write` are committed, or could not be written because of `error`."""
        group, purpose, ok = write.group, write.purpose, error is ErrorCode.none
        if isinstance(purpose, OffsetsCommitted):
            group.offsets.finish(purpose.offsets, written=ok)
            self._drop_if_blank(group)
            return [Answer(purpose.token, purpose.reply if ok else OffsetsReply(error))]
        if isinstance(purpose, OffsetsPrepared):
            group.offsets.finish(purpose.offsets, written=False)
            if ok:
                self._prepare(group, purpose.producer_id, purpose.offsets)
            self._drop_if_blank(group)
            return [Answer(purpose.token, purpose.reply if ok else OffsetsReply(error))]
        if isinstance(purpose, OffsetsRemoved):
            if ok:
                group.offsets.remove(purpose.partitions)
            if purpose.token is None:
                return []
            return [Answer(purpose.token, purpose.reply if ok else OffsetsReply(error))]
        if isinstance(purpose, GroupDeleted):
            self.leaving.remove(group)
            if ok:
                group.die(now_ms)
            else:
                self.groups.setdefault(group.group_id, group)
            return [] if purpose.token is None else [Answer(purpose.token, DeleteReply(error))]
        return group.written(purpose, error, now_ms)

    def _create(self, group_id: str, now_ms: int) -> Group:
        group = self.groups[group_id] = Group(group_id, self.limits, now_ms)
        return group

    def _drop_if_blank(self, group: Group) -> None:
        if self.groups.get(group.group_id) is group and _is_blank(group):
            del self.groups[group.group_id]


def _is_blank(group: Group) -> bool:
    """Nobody is in the group, nobody is expected, and nothing of it was ever written."""
    return (
        group.state is GroupState.EMPTY
        and not group.generation_id
        and not group.sessions.pending
        and group.offsets.is_empty()
    )


def _names_in(request: JoinRequest) -> list[str]:
    return [
        request.fresh_member_id,
        request.group_instance_id or "",
        request.client_id,
        request.client_host,
        request.protocol_type,
        *(name for name, _ in request.protocols),
    ]


def _unknown(group_id: str) -> ErrorCode:
    return ErrorCode.unknown_member_id if group_id else ErrorCode.invalid_group_id


def _offset_key(group_id: str, partition: TopicPartition) -> bytes:
    return records.encode_offset_key(group_id, partition.topic, partition.partition)


def _tombstones(group: Group, partitions: Iterable[TopicPartition]) -> tuple[KeyValue, ...]:
    return tuple((_offset_key(group.group_id, partition), None) for partition in partitions)


def _removal(group: Group, purpose: OffsetsRemoved) -> Write:
    return Write(group, _tombstones(group, purpose.partitions), purpose)
