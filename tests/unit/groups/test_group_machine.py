"""Random histories of clients, clock, log and crashes against the coordinator of one group.

What must hold at every step: no request is answered twice, none is forgotten; a generation has one leader and
one protocol, and goes only up; each member gets exactly what the leader sent for it in that generation; what
was acknowledged as committed survives a crash. When the faults stop, the group becomes stable with all its
living clients.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.groups.limits import GroupLimits
from penstock.groups.messages import (
    Answer,
    CommitRequest,
    Effect,
    JoinReply,
    JoinRequest,
    LeavingMember,
    OffsetsCommitted,
    Rejoined,
    SyncReply,
    SyncRequest,
    Write,
)
from penstock.groups.offsets import CommittedOffset
from penstock.groups.shard import Shard
from penstock.groups.states import GroupState
from penstock.types import ErrorCode, TopicPartition
from tests.support.examples import HISTORIES

LIMITS = GroupLimits(initial_rebalance_delay_ms=50, group_size_max=5)
START_OVER = {ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id}
PROTOCOLS = ((("range", b"r"),), (("sticky", b"s"), ("range", b"r")), (("range", b"r2"), ("sticky", b"s")))
CLIENTS = st.integers(0, 4)


@dataclass
class Client:
    number: int
    instance: str | None
    version: int
    member_id: str = ""
    generation_id: int = -1
    protocols: tuple[tuple[str, bytes], ...] = PROTOCOLS[0]
    waiting: int | None = None
    """The token of the request that this client waits for; a late answer to another is not for it."""
    members: tuple[str, ...] = ()
    """Whom to assign to, if it leads."""
    is_assigned: bool = False
    wants_in: bool = False


class GroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.shard = Shard(LIMITS)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.queue: deque[Write] = deque()
        self.clients = [
            Client(number, f"i{number}" if number >= 3 else None, (3, 8, 9, 9, 8)[number])
            for number in range(5)
        ]
        self.tokens = 0
        self.owners: dict[int, Client | None] = {}
        self.open: set[int] = set()
        self.fresh = 0
        self.generations: dict[tuple[int, int], str | None] = {}
        self.sent: dict[tuple[int, int, str], bytes] = {}
        """By incarnation of the coordinator, generation, and member id, or instance id of static members."""
        self.incarnation = 0
        self.last_generation = 0
        self.acknowledged: int | None = None

    # Plumbing

    def token(self, client: Client | None) -> int:
        self.tokens += 1
        self.open.add(self.tokens)
        self.owners[self.tokens] = client
        if client is not None:
            client.waiting = self.tokens
        return self.tokens

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                assert effect.token in self.open, "answered twice"
                self.open.remove(effect.token)
                self.answered(effect)
            else:
                self.queue.append(effect)

    def answered(self, answer: Answer) -> None:
        client, reply = self.owners[answer.token], answer.reply
        if isinstance(reply, JoinReply) and reply.error is ErrorCode.none:
            self.check_generation(reply)
        if client is None or client.waiting != answer.token:
            return
        client.waiting = None
        if isinstance(reply, JoinReply):
            self.joined(client, reply)
        elif isinstance(reply, SyncReply):
            if reply.error is ErrorCode.none:
                who = client.instance or client.member_id
                key = (self.incarnation_of(client.generation_id), client.generation_id, who)
                assert reply.assignment == self.sent[key]
                client.is_assigned = True
            elif reply.error in START_OVER:
                client.member_id = ""

    def incarnation_of(self, generation_id: int) -> int:
        """A generation that was not written before a crash may be used again by the next coordinator."""
        known = [one for one, generation in self.generations if generation == generation_id]
        return max(known, default=self.incarnation)

    def check_generation(self, reply: JoinReply) -> None:
        group = self.shard.groups["g"]
        assert reply.generation_id <= group.generation_id
        # The leader's id may be a former one: so an older static leader is told that it must not assign.
        key = (self.incarnation, reply.generation_id)
        assert self.generations.setdefault(key, reply.protocol_name) == reply.protocol_name

    def joined(self, client: Client, reply: JoinReply) -> None:
        if reply.error in (ErrorCode.none, ErrorCode.member_id_required):
            client.member_id, client.generation_id = reply.member_id, reply.generation_id
            client.members = tuple(one.member_id for one in reply.members)
            client.is_assigned = False
            if reply.leader == reply.member_id and not reply.skip_assignment:
                assert reply.member_id in client.members
        elif reply.error in START_OVER:
            client.member_id = ""
        elif reply.error is ErrorCode.inconsistent_group_protocol:
            # Of a member's protocols the log has the one that was chosen, as on Kafka: after a crash the
            # others are not known until it joins again. Clients of Kafka give up then.
            assert self.incarnation > 0
            offered = {name for name, _ in client.protocols}
            assert offered.isdisjoint(self.shard.groups["g"].roster.common_protocols())
            client.wants_in, client.member_id = False, ""

    # Rules

    # A history of pure chance hardly gets beyond the first JoinGroup, so most steps are sensible ones.

    @rule(number=CLIENTS)
    def behave(self, number: int) -> None:
        self.clients[number].wants_in = True
        self.step(self.clients[number])

    @rule(numbers=st.lists(CLIENTS, min_size=2, max_size=5, unique=True))
    def behave_together(self, numbers: list[int]) -> None:
        for number in numbers:
            self.behave(number)

    @rule(number=CLIENTS, protocols=st.sampled_from(PROTOCOLS), forgets=st.booleans())
    def join(self, number: int, protocols: tuple[tuple[str, bytes], ...], forgets: bool) -> None:
        client = self.clients[number]
        client.protocols = protocols
        client.wants_in = True
        if forgets:
            client.member_id = ""
        self.send_join(client)

    def send_join(self, client: Client) -> None:
        self.fresh += 1
        request = JoinRequest(
            member_id=client.member_id,
            group_instance_id=client.instance,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=15_000,
            protocol_type="x",
            protocols=client.protocols,
            requires_known_member_id=client.version >= 4,
            supports_skipping_assignment=client.version >= 9,
            fresh_member_id=f"m{self.fresh}",
        )
        self.carry_out(self.shard.join("g", self.token(client), request, self.now_ms))

    @rule(number=CLIENTS)
    def sync(self, number: int) -> None:
        self.send_sync(self.clients[number])

    def send_sync(self, client: Client) -> None:
        group = self.shard.groups.get("g")
        assignments = {one: f"{self.tokens}:{one}".encode() for one in client.members}
        before = len(self.queue)
        request = SyncRequest(
            member_id=client.member_id,
            group_instance_id=client.instance,
            generation_id=client.generation_id,
            assignments=assignments,
        )
        effects = self.shard.sync("g", self.token(client), request, self.now_ms)
        if any(isinstance(effect, Write) for effect in effects):
            assert group is not None
            for member in group.roster:
                who = member.group_instance_id or member.member_id
                self.sent[self.incarnation, client.generation_id, who] = assignments.get(
                    member.member_id, b""
                )
        self.carry_out(effects)
        assert len(self.queue) >= before

    @rule(number=CLIENTS)
    def heartbeat(self, number: int) -> None:
        client = self.clients[number]
        error = self.shard.heartbeat(
            "g", client.member_id, client.instance, client.generation_id, self.now_ms
        )
        if error in START_OVER:
            client.member_id = ""

    @rule(number=CLIENTS)
    def leave(self, number: int) -> None:
        client = self.clients[number]
        client.wants_in = False
        leaving = [LeavingMember(client.member_id, client.instance)]
        self.carry_out(self.shard.leave("g", self.token(None), leaving, self.now_ms))
        client.member_id = ""

    @rule(number=CLIENTS, offset=st.integers(0, 1000))
    def commit(self, number: int, offset: int) -> None:
        client = self.clients[number]
        request = CommitRequest(
            member_id=client.member_id,
            group_instance_id=client.instance,
            generation_id=client.generation_id,
            offsets={TopicPartition("t", 0): CommittedOffset(offset=offset, commit_timestamp_ms=self.now_ms)},
        )
        self.carry_out(self.shard.commit("g", self.token(None), request, self.now_ms))

    @rule(passed_ms=st.sampled_from([1, 50, 50, 100, 1_000, 9_000, 20_000]))
    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self.expire()

    @rule()
    def wait_for_deadline(self) -> None:
        group = self.shard.groups.get("g")
        deadline_ms = None if group is None else group.next_deadline()
        if deadline_ms is not None:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.expire()
            assert group is not None
            after_ms = group.next_deadline()
            assert after_ms is None or after_ms > self.now_ms, "due and not done"

    def expire(self) -> None:
        for group in list(self.shard.groups.values()):
            self.carry_out(self.shard.expire(group, self.now_ms))

    @precondition(lambda self: self.queue)
    @rule(fails=st.sampled_from([False, False, False, True]))
    def write(self, fails: bool) -> None:
        write = self.queue.popleft()
        if not fails:
            self.log += write.records
            if isinstance(write.purpose, OffsetsCommitted):
                (offset,) = write.purpose.offsets.values()
                self.acknowledged = offset.offset
        error = ErrorCode.not_coordinator if fails else ErrorCode.none
        self.carry_out(self.shard.written(write, error, self.now_ms))

    @precondition(lambda self: self.log)
    @rule()
    def crash(self) -> None:
        self.queue.clear()
        self.open.clear()
        for client in self.clients:
            client.waiting = None
        self.shard = Shard(LIMITS)
        self.incarnation += 1
        for key, value in self.log:
            self.shard.replay(key, value, self.now_ms)
        self.carry_out(self.shard.finish_loading(self.now_ms))
        self.last_generation = 0
        group = self.shard.groups.get("g")
        if group is not None:
            self.generations[self.incarnation, group.generation_id] = group.protocol_name
            for member in group.roster:
                who = member.group_instance_id or member.member_id
                self.sent[self.incarnation, group.generation_id, who] = member.assignment

    # Checks

    @invariant()
    def no_request_is_forgotten(self) -> None:
        held = set()
        for group in self.shard.groups.values():
            for member in group.roster:
                held |= {member.join_token, member.sync_token} - {None}
        for write in self.queue:
            if isinstance(write.purpose, (OffsetsCommitted, Rejoined)):
                held.add(write.purpose.token)
        assert held == self.open

    @invariant()
    def generations_only_go_up(self) -> None:
        group = self.shard.groups.get("g")
        generation_id = 0 if group is None else group.generation_id
        assert generation_id >= self.last_generation
        self.last_generation = generation_id

    @invariant()
    def committed_is_what_was_written_last(self) -> None:
        group = self.shard.groups.get("g")
        offset = None if group is None else group.offsets.committed.get(TopicPartition("t", 0))
        assert (None if offset is None else offset.offset) == self.acknowledged

    @invariant()
    def whoever_waits_is_watched(self) -> None:
        """A group in the middle of a rebalance has a deadline, or something on its way to the log."""
        for group in self.shard.groups.values():
            if group.state in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE):
                assert group.next_deadline() is not None or self.queue

    @invariant()
    def counts_are_right(self) -> None:
        for group in self.shard.groups.values():
            members = list(group.roster)
            assert group.roster.waiting_count == sum(one.join_token is not None for one in members)
            known = [{name for name, _ in one.protocols} for one in members]
            assert group.roster.common_protocols() == (set.intersection(*known) if known else set())

    @invariant()
    def every_deadline_is_watched(self) -> None:
        for group in self.shard.groups.values():
            deadlines = [*group.sessions.pending.values(), *(one.session_deadline_ms for one in group.roster)]
            next_ms = group.next_deadline()
            for deadline_ms in deadlines:
                assert deadline_ms is None or (next_ms is not None and next_ms <= deadline_ms)

    def teardown(self) -> None:
        """The faults stop: every client that wants in behaves, and the group must become stable."""
        for _ in range(30):
            while self.queue:
                self.write(fails=False)
            living = [client for client in self.clients if client.wants_in]
            if self.is_settled(living):
                return
            for client in living:
                self.step(client)
            self.now_ms += 1_000
            self.expire()
        raise AssertionError(f"not stable: {self.shard.groups}, {self.clients}")

    def step(self, client: Client) -> None:
        if client.waiting is not None:
            return
        if not client.member_id or client.generation_id < 0:
            self.send_join(client)
            return
        error = self.shard.heartbeat(
            "g", client.member_id, client.instance, client.generation_id, self.now_ms
        )
        if error in START_OVER:
            client.member_id = ""
        if error is not ErrorCode.none:
            self.send_join(client)
        elif not client.is_assigned:
            self.send_sync(client)

    def is_settled(self, living: list[Client]) -> bool:
        group = self.shard.groups.get("g")
        if group is None:
            return not living
        members = {member.member_id for member in group.roster}
        state = GroupState.STABLE if living else GroupState.EMPTY
        return (
            group.state is state
            and members == {client.member_id for client in living}
            and all(client.is_assigned and client.waiting is None for client in living)
        )


GroupMachine.TestCase.settings = settings(max_examples=HISTORIES, stateful_step_count=50)
TestGroupMachine = GroupMachine.TestCase
