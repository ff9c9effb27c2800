"""What a JoinGroup means: a newcomer, a member with a fresh id, one that comes again, or a static member
that was restarted.

- A newcomer (no member id) of JoinGroup 4+ is given an id and told to join with it, so that a client which
  never sees the answer leaves nothing behind but an id. Static members and older clients are added at once.
- A known member that joins again without a change gets the current generation, for it may have missed the
  answer. A change of its protocols, or a join of the leader (which has seen a change of the topics),
  begins a rebalance.
- A static member that comes without an id has been restarted: it gets a new id, whoever still uses the old
  one is fenced, and in a stable group it takes its old assignment without a rebalance. Kafka does that even
  if it now reads other topics, which it then would not get; here that begins a rebalance.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.groups.member import Member
from penstock.groups.messages import JoinReply, Rejoined
from penstock.groups.states import GroupState
from penstock.groups.subscription import maybe_topics
from penstock.types import ErrorCode

if TYPE_CHECKING:
    from penstock.groups.group import Group
    from penstock.groups.messages import Effect, JoinRequest


def join(group: Group, token: int, request: JoinRequest, now_ms: int) -> list[Effect]:
    error = _refuse(group, request)
    known = group.roster.static(request.group_instance_id)
    if error is not ErrorCode.none:
        _refused(group, token, request, error, now_ms)
    elif request.member_id:
        _join_with_id(group, token, request, now_ms)
    elif known is not None:
        _restart_static(group, known, token, request, now_ms)
    elif _needs_id(request):
        group.sessions.hand_out(request.fresh_member_id, now_ms + request.session_timeout_ms)
        refusal = JoinReply(error=ErrorCode.member_id_required, member_id=request.fresh_member_id)
        group.answer(token, refusal)
    else:
        _add(group, request.fresh_member_id, token, request, now_ms)
    group.maybe_complete_join(now_ms)
    return group.take_effects()


def _refuse(group: Group, request: JoinRequest) -> ErrorCode:
    if not request.protocol_type or not request.protocols:
        return ErrorCode.inconsistent_group_protocol
    if not _has_room_for(group, request):
        return ErrorCode.group_max_size_reached
    if len(group.roster) and (
        request.protocol_type != group.protocol_type or not group.roster.supports(request.protocols)
    ):
        return ErrorCode.inconsistent_group_protocol
    return ErrorCode.none


def _needs_id(request: JoinRequest) -> bool:
    """Whether this is a newcomer that is to come again with the id it is given."""
    return not request.member_id and request.group_instance_id is None and request.requires_known_member_id


def _has_room_for(group: Group, request: JoinRequest) -> bool:
    limit = group.limits.group_size_max
    if _needs_id(request) and len(group.sessions.pending) >= limit:
        return False
    member = group.roster.get(request.member_id) or group.roster.static(request.group_instance_id)
    if group.state is GroupState.PREPARING_REBALANCE:
        # Who comes first stays; that lets a group shrink after its limit was lowered.
        is_waiting = member is not None and member.join_token is not None
        return is_waiting or group.roster.waiting_count < limit
    return member is not None or len(group.roster) < limit


def _refused(group: Group, token: int, request: JoinRequest, error: ErrorCode, now_ms: int) -> None:
    group.answer(token, JoinReply(error=error, member_id=request.member_id))
    if error is not ErrorCode.group_max_size_reached:
        return
    group.sessions.take_pending(request.member_id)
    member = group.roster.find(request.member_id, request.group_instance_id)
    if isinstance(member, Member):
        group.remove(member)
        group.after_removal(now_ms)


def _join_with_id(group: Group, token: int, request: JoinRequest, now_ms: int) -> None:
    if request.group_instance_id is None and group.sessions.take_pending(request.member_id):
        _add(group, request.member_id, token, request, now_ms)
        return
    member = group.roster.find(request.member_id, request.group_instance_id)
    if isinstance(member, ErrorCode):
        group.answer(token, JoinReply(error=member, member_id=request.member_id))
    elif _is_answered_at_once(group, member, request):
        group.sessions.refresh(member, now_ms)
        group.answer(token, group.generation_for(member))
    else:
        _update(group, member, request)
        group.gather(member, token, now_ms)


def _is_answered_at_once(group: Group, member: Member, request: JoinRequest) -> bool:
    if member.protocols != request.protocols:
        return False
    if group.state is GroupState.STABLE:
        return member.member_id != group.roster.leader_id
    return group.state is GroupState.COMPLETING_REBALANCE


def _add(group: Group, member_id: str, token: int, request: JoinRequest, now_ms: int) -> None:
    member = Member(
        member_id=member_id,
        group_instance_id=request.group_instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        protocols=request.protocols,
        join_token=token,
        session_deadline_ms=now_ms + group.limits.new_member_join_timeout_ms,
        is_new=True,
    )
    group.add(member, request.protocol_type, now_ms)


def _update(group: Group, member: Member, request: JoinRequest) -> None:
    member.client_id, member.client_host = request.client_id, request.client_host
    member.session_timeout_ms = request.session_timeout_ms
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    group.roster.change_protocols(member, request.protocols)


def _restart_static(group: Group, member: Member, token: int, request: JoinRequest, now_ms: int) -> None:
    leader_before = group.roster.leader_id or ""
    topics_before = maybe_topics(member.metadata_for(group.protocol_name))
    group.dismiss(member, ErrorCode.fenced_instance_id)
    group.rename(member, request.fresh_member_id)
    member.is_new = False
    _update(group, member, request)
    if (
        group.state is not GroupState.STABLE
        or group.roster.select_protocol() != group.protocol_name
        or topics_before != maybe_topics(member.metadata_for(group.protocol_name))
    ):
        group.gather(member, token, now_ms)
        return
    group.sessions.refresh(member, now_ms)
    group.read_subscriptions()
    group.write_metadata(
        Rejoined(token, _unchanged_generation(group, member, request, leader_before)),
        {one.member_id: one.assignment for one in group.roster},
    )


def _unchanged_generation(
    group: Group, member: Member, request: JoinRequest, leader_before: str
) -> JoinReply:
    reply = group.generation_for(member)
    if request.supports_skipping_assignment:
        return replace(reply, skip_assignment=member.member_id == group.roster.leader_id)
    # An older client that is told it leads would assign anew; the leader's former id keeps it from that.
    return replace(reply, leader=leader_before, members=())
