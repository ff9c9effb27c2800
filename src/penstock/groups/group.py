"""One classic consumer group: the state machine of its membership.

A rebalance has two phases. In PreparingRebalance every member must send JoinGroup; the answers wait until all
members are there or the longest rebalance timeout is over, and members that did not come are dropped. All are
answered at once with the next generation, the leader with everybody's metadata. In CompletingRebalance every
member sends SyncGroup; the leader's carries the assignment, and when that is written all are answered.

The first rebalance of an empty group waits a little longer for members that start together.

Deadlines are plain numbers on the members and on the group: `next_deadline` is not later than the earliest,
`expire` does what is due. A group in which nothing is due costs nothing, and one request costs the same in a
large group as in a small one unless it ends a phase. What a JoinGroup means is decided in `joining`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.groups import snapshot
from penstock.groups.messages import (
    Answer,
    Assigned,
    Effect,
    Emptied,
    JoinedMember,
    JoinReply,
    LeaveReply,
    LeavingMember,
    Purpose,
    Rejoined,
    SyncReply,
    SyncRequest,
    Write,
)
from penstock.groups.offsets import Offsets
from penstock.groups.roster import Roster
from penstock.groups.sessions import Sessions
from penstock.groups.states import TRANSITIONS, GroupState
from penstock.groups.subscription import CONSUMER_PROTOCOL_TYPE, maybe_union
from penstock.types import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.groups.limits import GroupLimits
    from penstock.groups.member import Member


class Group:
    def __init__(self, group_id: str, limits: GroupLimits, now_ms: int) -> None:
        self.group_id = group_id
        self.limits = limits
        self.state = GroupState.EMPTY
        self.state_timestamp_ms = now_ms
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.roster = Roster()
        self.offsets = Offsets()
        self.sessions = Sessions(self.roster)
        self._new_member_added = False
        """A further member came while an empty group waits for its first members."""
        self._subscribed_topics: frozenset[str] | None = None
        self._join_deadline_ms: int | None = None
        self._initial_remaining_ms: int | None = None
        """How much longer the first join phase may be stretched; None in later ones."""
        self._sync_deadline_ms: int | None = None
        self._pending_sync: set[str] = set()
        """Members that know the generation and have not asked for their assignment."""
        self._assigned: Assigned | None = None
        """The assignment on its way to the log."""
        self._effects: list[Effect] = []

    # Requests ------------------------------------------------------------------------------------------

    def sync(self, token: int, request: SyncRequest, now_ms: int) -> list[Effect]:
        member = self.roster.find(request.member_id, request.group_instance_id)
        error = self._refuse_sync(member, request)
        if error is not ErrorCode.none or isinstance(member, ErrorCode):
            self.answer(token, SyncReply(error=error))
            return self.take_effects()
        self._pending_sync.discard(member.member_id)
        if not self._pending_sync:
            self._sync_deadline_ms = None
        if self.state is GroupState.STABLE:
            self.sessions.refresh(member, now_ms)
            self.answer(token, self._assignment_of(member))
            return self.take_effects()
        if member.sync_token is not None:  # sent again over a new connection
            self.answer(member.sync_token, SyncReply(error=ErrorCode.rebalance_in_progress))
        member.sync_token = token
        member.session_deadline_ms = None
        if member.member_id == self.roster.leader_id and self._assigned is None:
            self._assigned = Assigned(
                self.generation_id,
                {one.member_id: request.assignments.get(one.member_id, b"") for one in self.roster},
            )
            self.write_metadata(self._assigned, self._assigned.assignments)
        return self.take_effects()

    def _refuse_sync(self, member: Member | ErrorCode, request: SyncRequest) -> ErrorCode:
        if isinstance(member, ErrorCode):
            return member
        if request.generation_id != self.generation_id:
            return ErrorCode.illegal_generation
        if (
            request.protocol_type not in (None, self.protocol_type)
            or request.protocol_name not in (None, self.protocol_name)
        ):  # fmt: skip
            return ErrorCode.inconsistent_group_protocol
        if self.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.rebalance_in_progress
        return ErrorCode.none

    def heartbeat(
        self, member_id: str, group_instance_id: str | None, generation_id: int, now_ms: int
    ) -> ErrorCode:
        member = self.roster.find(member_id, group_instance_id)
        if isinstance(member, ErrorCode):
            return member
        if generation_id != self.generation_id:
            return ErrorCode.illegal_generation
        self.sessions.refresh(member, now_ms)
        if self.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.rebalance_in_progress
        return ErrorCode.none

    def leave(self, token: int, leaving: Sequence[LeavingMember], now_ms: int) -> list[Effect]:
        size = len(self.roster)
        outcome = [self._leave_one(one) for one in leaving]
        self.answer(token, LeaveReply(members=tuple(outcome)))
        if ErrorCode.none in outcome:
            # A pending member held nobody up but a join phase, so its end alone starts no rebalance.
            self.after_removal(now_ms, is_rebalance_needed=len(self.roster) < size)
        return self.take_effects()

    def _leave_one(self, leaving: LeavingMember) -> ErrorCode:
        if leaving.group_instance_id is None and self.sessions.take_pending(leaving.member_id):
            return ErrorCode.none
        member: Member | ErrorCode
        if leaving.group_instance_id is not None and not leaving.member_id:
            # An administrator removes a static member, whose id it need not know.
            member = self.roster.static(leaving.group_instance_id) or ErrorCode.unknown_member_id
        else:
            member = self.roster.find(leaving.member_id, leaving.group_instance_id)
        if isinstance(member, ErrorCode):
            return member
        self.remove(member)
        return ErrorCode.none

    # Time ----------------------------------------------------------------------------------------------

    def next_deadline(self) -> int | None:
        """When to call `expire` next: there may be nothing to do then, but nothing is due earlier."""
        deadlines = (self.sessions.next_deadline(), self._join_deadline_ms, self._sync_deadline_ms)
        return min((one for one in deadlines if one is not None), default=None)

    def expire(self, now_ms: int) -> list[Effect]:
        """Do what is due. Early calls do no harm."""
        silent, stale_ids = self.sessions.take_due(now_ms)
        for member in silent:
            self.remove(member)
        if silent or stale_ids:
            self.after_removal(now_ms, is_rebalance_needed=bool(silent))
        if _is_due(self._sync_deadline_ms, now_ms):
            self._expire_sync(now_ms)
        if _is_due(self._join_deadline_ms, now_ms):
            self._expire_join(now_ms)
        return self.take_effects()

    def _expire_sync(self, now_ms: int) -> None:
        self._sync_deadline_ms = None
        for member_id in sorted(self._pending_sync):
            member = self.roster.get(member_id)
            if member is not None:
                self.remove(member)
        self.after_removal(now_ms)

    def _expire_join(self, now_ms: int) -> None:
        if self._new_member_added and self._initial_remaining_ms:
            self._new_member_added = False
            delay_ms = min(self.limits.initial_rebalance_delay_ms, self._initial_remaining_ms)
            self._initial_remaining_ms -= delay_ms
            self._join_deadline_ms = now_ms + delay_ms
        else:
            self._complete_join(now_ms)

    # The phases of a rebalance -------------------------------------------------------------------------

    def prepare_rebalance(self, now_ms: int) -> None:
        """Begin a rebalance, from any state but the one that it leads to."""
        self._answer_syncs(SyncReply(error=ErrorCode.rebalance_in_progress), now_ms)
        self._pending_sync.clear()
        self._sync_deadline_ms = None
        self._assigned = None
        is_initial = self.state is GroupState.EMPTY
        self._become(GroupState.PREPARING_REBALANCE, now_ms)
        timeout_ms = self.roster.rebalance_timeout_ms()
        if is_initial:
            delay_ms = self.limits.initial_rebalance_delay_ms
            self._new_member_added = False
            self._initial_remaining_ms = max(timeout_ms - delay_ms, 0)
            self._join_deadline_ms = now_ms + delay_ms
        else:
            self._initial_remaining_ms = None
            self._join_deadline_ms = now_ms + timeout_ms
            self.maybe_complete_join(now_ms)

    def maybe_complete_join(self, now_ms: int) -> None:
        if (
            self.state is GroupState.PREPARING_REBALANCE
            and self._initial_remaining_ms is None
            and not self.sessions.pending
            and self.roster.waiting_count == len(self.roster)
        ):
            self._complete_join(now_ms)

    def _complete_join(self, now_ms: int) -> None:
        for member in self.roster:
            if member.join_token is None and member.group_instance_id is None:
                self.remove(member)
        if len(self.roster) and not self.roster.elect_joined_leader():
            # Only static members are left, all of them away: their sessions decide how long they may be.
            again_ms = max(self.roster.rebalance_timeout_ms(), self.limits.session_timeout_ms_min)
            self._join_deadline_ms = now_ms + again_ms
            return
        self._join_deadline_ms = self._initial_remaining_ms = None
        self.generation_id += 1
        if not len(self.roster):
            self.protocol_name = None
            self._subscribed_topics = None
            self._become(GroupState.EMPTY, now_ms)
            self.write_metadata(Emptied(), {})
            return
        self.protocol_name = self.roster.select_protocol()
        self.read_subscriptions()
        self._become(GroupState.COMPLETING_REBALANCE, now_ms)
        self._sync_deadline_ms = now_ms + self.roster.rebalance_timeout_ms()
        for member in self.roster.waiting_to_join():
            token = self.roster.end_waiting(member)
            assert token is not None
            self.answer(token, self.generation_for(member))
            member.is_new = False
            self.sessions.refresh(member, now_ms)
            self._pending_sync.add(member.member_id)

    def written(self, purpose: Purpose, error: ErrorCode, now_ms: int) -> list[Effect]:
        """A write of this group's metadata has ended."""
        if isinstance(purpose, Rejoined):
            failed = JoinReply(error=error, member_id=purpose.reply.member_id)
            self.answer(purpose.token, purpose.reply if error is ErrorCode.none else failed)
        elif isinstance(purpose, Assigned) and purpose is self._assigned:
            # Otherwise another rebalance has begun meanwhile, and those who waited were told.
            self._assigned = None
            if error is ErrorCode.none:
                self._become_stable(purpose, now_ms)
            else:
                self._answer_syncs(SyncReply(error=error), now_ms)
                self.prepare_rebalance(now_ms)
        return self.take_effects()

    def _become_stable(self, assigned: Assigned, now_ms: int) -> None:
        self._become(GroupState.STABLE, now_ms)
        for member in self.roster:
            member.assignment = assigned.assignments[member.member_id]
        self._answer_syncs(None, now_ms)

    def _answer_syncs(self, reply: SyncReply | None, now_ms: int) -> None:
        for member in self.roster:
            if member.sync_token is not None:
                self.answer(member.sync_token, reply or self._assignment_of(member))
                member.sync_token = None
                self.sessions.refresh(member, now_ms)

    # Members -------------------------------------------------------------------------------------------

    def add(self, member: Member, protocol_type: str, now_ms: int) -> None:
        """A newcomer, whose JoinGroup waits for the end of the join phase; that begins if it has not."""
        if not len(self.roster):
            self.protocol_type = protocol_type
        self.roster.add(member)
        self.sessions.watch(member)
        if self.state is GroupState.PREPARING_REBALANCE:
            self._new_member_added = True
        else:
            self.prepare_rebalance(now_ms)

    def gather(self, member: Member, token: int, now_ms: int) -> None:
        """The same for a member that is known already and joins again."""
        stale_token = self.roster.end_waiting(member)
        if stale_token is not None:  # sent again over a new connection
            stale = JoinReply(error=ErrorCode.rebalance_in_progress, member_id=member.member_id)
            self.answer(stale_token, stale)
        self.roster.begin_waiting(member, token)
        if not member.is_new:
            member.session_deadline_ms = None
        if self.state is not GroupState.PREPARING_REBALANCE:
            self.prepare_rebalance(now_ms)

    def remove(self, member: Member) -> None:
        """Take a member out; the caller goes on with `after_removal` when it has taken out all."""
        self.dismiss(member, ErrorCode.unknown_member_id)
        self.roster.remove(member)
        self.sessions.forget(member.member_id)
        self._pending_sync.discard(member.member_id)

    def dismiss(self, member: Member, error: ErrorCode) -> None:
        """Answer what the member waits for with an error."""
        token = self.roster.end_waiting(member)
        if token is not None:
            self.answer(token, JoinReply(error=error, member_id=member.member_id))
        if member.sync_token is not None:
            self.answer(member.sync_token, SyncReply(error=error))
        member.sync_token = None

    def after_removal(self, now_ms: int, *, is_rebalance_needed: bool = True) -> None:
        if self.state is GroupState.PREPARING_REBALANCE:
            self.maybe_complete_join(now_ms)
        elif is_rebalance_needed and self.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.prepare_rebalance(now_ms)

    def rename(self, member: Member, member_id: str) -> None:
        if member.member_id in self._pending_sync:
            self._pending_sync.remove(member.member_id)
            self._pending_sync.add(member_id)
        self.sessions.forget(member.member_id)
        self.roster.rename(member, member_id)
        self.sessions.watch(member)

    # What is shown and written --------------------------------------------------------------------------

    def generation_for(self, member: Member) -> JoinReply:
        """The current generation as JoinGroup tells it to one member; the leader gets all members."""
        is_leader = member.member_id == self.roster.leader_id
        return JoinReply(
            member_id=member.member_id,
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.roster.leader_id or "",
            members=self.joined_members() if is_leader else (),
        )

    def joined_members(self) -> tuple[JoinedMember, ...]:
        return tuple(
            JoinedMember(one.member_id, one.group_instance_id, one.metadata_for(self.protocol_name))
            for one in self.roster
        )

    def _assignment_of(self, member: Member) -> SyncReply:
        return SyncReply(
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            assignment=member.assignment,
        )

    def read_subscriptions(self) -> None:
        self._subscribed_topics = None
        if self.protocol_type == CONSUMER_PROTOCOL_TYPE and len(self.roster):
            self._subscribed_topics = maybe_union(one.metadata_for(self.protocol_name) for one in self.roster)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members read the topic; a subscription that cannot be read may well contain it."""
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE or not len(self.roster):
            return False
        return self._subscribed_topics is None or topic in self._subscribed_topics

    def write_metadata(self, purpose: Purpose, assignments: Mapping[str, bytes]) -> None:
        self._effects.append(Write(self, (snapshot.record_of(self, assignments),), purpose))

    def answer(self, token: int, reply: JoinReply | SyncReply | LeaveReply) -> None:
        self._effects.append(Answer(token, reply))

    def take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    def _become(self, state: GroupState, now_ms: int) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} cannot become {state}"
        self.state = state
        self.state_timestamp_ms = now_ms

    def die(self, now_ms: int) -> None:
        self._become(GroupState.DEAD, now_ms)


def _is_due(deadline_ms: int | None, now_ms: int) -> bool:
    return deadline_ms is not None and deadline_ms <= now_ms
