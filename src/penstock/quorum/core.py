"""One node of the quorum: votes, epochs, and a log that followers pull.

This is Raft with the direction of replication turned round, as in Kafka (KIP-595). Terms are leader epochs.
A follower asks the leader for what comes after its log; that it asks for offset n in the leader's epoch, and
that the leader finds their logs to agree up to there, says that it holds all before n. An entry is committed
when a majority holds it together with an entry of the leader's own epoch.

Every method takes the time and returns effects, to be carried out in order; see messages.py. The log itself
is not here: `log` tells how far it reaches.

Before the first entry the voters are seats without storage ids. The first leader is elected by all of them,
not by a majority, writes down who they are, and asks for every one of them to hold that entry before it
writes the next. So there is never a voter that does not know the others' storage, a wiped node cannot pass
for the one it was, and wiped nodes, be they a majority, cannot begin anew beside one that has its log.

Whoever asks a node to change its epoch has to name the storage that this node's seat was given to: a voter
knows it, a stranger does not. And whoever leads, a node never gives up what it knew to be committed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.quorum.leadership import Leadership
from penstock.quorum.limits import EPOCHS_MISSED_MAX, OBSERVER_PATIENCE
from penstock.quorum.messages import (
    Answer,
    AppendFetched,
    BeginQuorumEpoch,
    Committed,
    ControlEntry,
    Effect,
    ElectionState,
    EndQuorumEpoch,
    FetchRequest,
    FetchResponse,
    LeaderIs,
    LoadSnapshot,
    Persist,
    Send,
    StandStill,
    Truncate,
    VoteRequest,
    VoteResponse,
)
from penstock.quorum.node import Membership, Node
from penstock.quorum.roles import Asking, Follower, Unattached
from penstock.replication.divergence import truncation_offset

if TYPE_CHECKING:
    from penstock.quorum.limits import QuorumLimits
    from penstock.quorum.voters import Voter, VoterSet
    from penstock.replication.divergence import LogEnd, LogView

Role = Unattached | Asking | Follower | Leadership


class Quorum:
    def __init__(
        self,
        me: Voter,
        configured: VoterSet,
        state: ElectionState,
        log: LogView,
        limits: QuorumLimits,
        *,
        jitter: Callable[[int, int], int],
    ) -> None:
        """What the log holds already is told by `restored` and `appended`; then `start` is called."""
        self._node = Node(me, log, limits, Membership(configured), state)
        self._limits = limits
        self._jitter = jitter
        self._asked_last = 0  # which of the voters an observer asked for the leader
        self.role: Role = Unattached(0)

    # What is known

    @property
    def state(self) -> ElectionState:
        return self._node.state

    @property
    def epoch(self) -> int:
        return self._node.state.epoch

    @property
    def leader_id(self) -> int | None:
        return self._node.state.leader_id

    @property
    def high_watermark(self) -> int:
        return self._node.high_watermark

    @property
    def voters(self) -> VoterSet:
        return self._node.voters

    def voters_at(self, end_offset: int) -> VoterSet | None:
        """Who voted where the log had this end; None if a snapshot there would lose how the cluster began."""
        return self._node.membership.voters_at(end_offset)

    @property
    def is_voter(self) -> bool:
        return self._node.me in self._node.voters

    @property
    def is_leader(self) -> bool:
        return isinstance(self.role, Leadership)

    @property
    def takes_entries(self) -> bool:
        """Whether the driver may append entries of its own, under this epoch."""
        return self.is_leader and self._node.membership.is_bootstrapped

    @property
    def next_deadline_ms(self) -> int:
        """Not later than the next moment at which `tick` has something to do."""
        return self.role.deadline_ms

    # The log

    def appended(self, offset: int, entry: ControlEntry) -> None:
        """The log holds this entry now: written by this node, fetched, or found at its start."""
        self._node.membership.appended(offset, entry)

    def restored(self, snapshot: LogEnd, voters: VoterSet) -> None:
        """The log begins with this snapshot."""
        self._node.snapshot = snapshot
        self._node.high_watermark = max(self._node.high_watermark, snapshot.end_offset)
        self._node.membership.restored(snapshot, voters)

    def noted(self, high_watermark: int) -> None:
        """All before it was known to be committed when this node ran the last time."""
        self._node.noted_high_watermark = high_watermark

    def snapshotted(self, snapshot: LogEnd) -> None:
        """A newer snapshot may be had from this node."""
        self._node.snapshot = snapshot

    def flushed(self, now_ms: int) -> list[Effect]:
        """What was to be done with the log is done and on disk."""
        role = self.role
        if isinstance(role, Leadership):
            role.advance()
        elif isinstance(role, Follower) and role.next_fetch_ms is None and role.answer_due_ms is None:
            committed = min(role.high_watermark, self._node.log.flushed_end_offset)
            if committed > self._node.high_watermark:
                self._node.high_watermark = committed
                self._do(Committed(committed))
            self._fetch(role, now_ms)
        return self._effects()

    # Time

    def start(self, now_ms: int) -> list[Effect]:
        """Ask soon: whoever follows a leader names it, and where all have just started nobody does."""
        self._detach(self.epoch, now_ms)
        if self.is_voter and not self._node.others:
            self._stand(now_ms)
        elif self.is_voter:
            self.role = Unattached(now_ms + self._soon_ms())
        return self._effects()

    def tick(self, now_ms: int) -> list[Effect]:
        role = self.role
        if now_ms < role.deadline_ms:
            return []
        if isinstance(role, Leadership):
            if now_ms >= role.resign_at_ms:
                self._resign(role, now_ms)
            else:
                role.tick(now_ms)
        elif isinstance(role, Follower) and now_ms < role.election_ms:
            self._fetch(role, now_ms)  # the first one, or again
        elif not self.is_voter:
            self._look_for_leader(now_ms)
        elif isinstance(role, Asking) and not role.is_pre_vote:
            self._detach(self.epoch, now_ms)  # a split vote: wait, each for another time
        elif isinstance(role, Asking) and self.leader_id is not None:
            self._follow(self.leader_id, now_ms)  # who would elect another has not said so in time
        else:
            self._ask(now_ms)
        return self._effects()

    # Elections

    def _ask(self, now_ms: int) -> None:
        """Begin a pre-vote. The epoch stays, and so does the leader's name: it may turn out to be well."""
        self._begin_asking(Asking(now_ms + self._limits.election_ms_min // 2, is_pre_vote=True), now_ms)

    def _stand(self, now_ms: int) -> None:
        """Begin an election in the next epoch, with a vote for oneself."""
        self._remember(ElectionState(self.epoch + 1, self._node.me))
        self._begin_asking(Asking(now_ms + self._election_ms(), is_pre_vote=False), now_ms)

    def _begin_asking(self, role: Asking, now_ms: int) -> None:
        self.role = role
        role.granted.add(self._node.me.node_id)
        for node_id in self._node.others:
            storage_id = self.voters.seats[node_id]
            request = VoteRequest(self.epoch, self._node.me, self._node.log_end, role.is_pre_vote, storage_id)
            self._do(Send(node_id, request))
        self._count(role, now_ms)

    def vote_request(self, token: int, request: VoteRequest, now_ms: int) -> list[Effect]:
        if self._is_from_voter(request) and self._is_next(request.epoch):
            self._detach(request.epoch, now_ms)
        is_granted = request.epoch == self.epoch and self._may_grant(request, now_ms)
        if is_granted and not request.is_pre_vote:
            self._remember(ElectionState(self.epoch, request.candidate))
            self.role = Unattached(now_ms + self._election_ms())
        me = self._node.me.node_id
        response = VoteResponse(self.epoch, me, self.leader_id, is_granted, request.is_pre_vote)
        self._do(Answer(token, response))
        return self._effects()

    def _is_from_voter(self, request: VoteRequest) -> bool:
        candidate, voters, configured = request.candidate, self.voters, self._node.membership.configured
        # One that has no seat may have got it by an entry that we lack.
        is_seated = candidate in (voters if candidate.node_id in voters.seats else configured)
        return is_seated and self._is_known_to(request.voter_storage_id)

    def _is_known_to(self, storage_id: UUID | None) -> bool:
        """Whether this storage id means us: not who had this seat before us, and not just anybody."""
        if self._node.membership.changed_at is None:
            return storage_id in (None, self._node.me.storage_id)
        return storage_id == self._node.me.storage_id

    def _is_next(self, epoch: int) -> bool:
        """Whether elections can have led to this epoch since we last heard of one."""
        return self.epoch < epoch <= self.epoch + EPOCHS_MISSED_MAX

    def _may_grant(self, request: VoteRequest, now_ms: int) -> bool:
        if not self._is_from_voter(request):
            return False
        if request.log_end < self._node.log_end:
            return False
        role = self.role
        if request.is_pre_vote:
            hears_leader = isinstance(role, Follower) and role.has_fetched and now_ms < role.election_ms
            return not (hears_leader or self.is_leader)
        return self.leader_id is None and self.state.voted_for in (None, request.candidate)

    def vote_response(self, response: VoteResponse, now_ms: int) -> list[Effect]:
        if response.epoch > self.epoch or self.leader_id is None:
            self._hear_of(response.epoch, response.leader_id, now_ms)
        role = self.role
        if (
            isinstance(role, Asking)
            and role.is_pre_vote == response.is_pre_vote
            and response.epoch == self.epoch
            and response.voter_id in self.voters.seats
        ):
            (role.granted if response.is_granted else role.refused).add(response.voter_id)
            self._count(role, now_ms)
        return self._effects()

    def vote_failed(self, voter_id: int, now_ms: int) -> list[Effect]:
        """That voter is down, and will not answer."""
        role = self.role
        if isinstance(role, Asking) and voter_id in self.voters.seats:
            role.refused.add(voter_id)
            self._count(role, now_ms)
        return self._effects()

    @property
    def votes_needed(self) -> int:
        """All, as long as the log does not say who votes: any of them may have a log that does."""
        is_first = self._node.membership.changed_at is None
        return len(self.voters.seats) if is_first else self.voters.majority

    def _count(self, role: Asking, now_ms: int) -> None:
        if len(role.granted) >= self.votes_needed:
            if role.is_pre_vote:
                self._stand(now_ms)
            else:
                self._lead(now_ms)
        elif len(self.voters.seats) - len(role.refused) < self.votes_needed:
            if role.is_pre_vote and self.leader_id is not None:
                self._follow(self.leader_id, now_ms)  # the others hear it, so perhaps it can be heard again
            elif role.is_pre_vote:  # nobody leads, and who is needed is not up yet: try again soon
                self.role = Unattached(now_ms + self._limits.retry_ms + self._soon_ms())
            else:
                self._detach(self.epoch, now_ms)  # a split vote: try again soon, each after another time
                self.role = Unattached(now_ms + self._soon_ms())

    def _detach(self, epoch: int, now_ms: int) -> None:
        """Know no leader, in this epoch or a higher one."""
        if isinstance(self.role, Leadership):
            self.role.refuse_all()
        if epoch > self.epoch:
            self._remember(ElectionState(epoch))
        elif self.leader_id is not None:
            self._remember(ElectionState(epoch, self.state.voted_for))
        self.role = Unattached(now_ms + (self._election_ms() if self.is_voter else 0))

    # Leading

    def _lead(self, now_ms: int) -> None:
        self._remember(ElectionState(self.epoch, self._node.me, self._node.me.node_id))
        self.role = Leadership(self._node, now_ms)

    def resign(self, now_ms: int) -> list[Effect]:
        """Give up leadership, as before a shutdown or when the disk fails."""
        if isinstance(self.role, Leadership):
            self._resign(self.role, now_ms)
        return self._effects()

    def _resign(self, role: Leadership, now_ms: int) -> None:
        successors = role.successors()
        for node_id in successors:
            self._do(Send(node_id, EndQuorumEpoch(self.epoch, self._node.me.node_id, successors)))
        self._detach(self.epoch, now_ms)

    def fetch_request(self, token: int, request: FetchRequest, now_ms: int) -> list[Effect]:
        if request.replica in self.voters and self._is_next(request.epoch):
            self._detach(request.epoch, now_ms)
        if isinstance(self.role, Leadership) and request.epoch == self.epoch:
            self.role.fetch(token, request, now_ms)
        else:
            self._do(Answer(token, FetchResponse(self.epoch, self.leader_id, is_refused=True)))
        return self._effects()

    # Following

    def begin_epoch(self, message: BeginQuorumEpoch, now_ms: int) -> list[Effect]:
        is_candidate = message.leader_id in self._node.membership.configured.seats
        is_current = message.epoch == self.epoch or self._is_next(message.epoch)
        if is_candidate and is_current and self._is_known_to(message.voter_storage_id):
            self._hear_of(message.epoch, message.leader_id, now_ms)
        return self._effects()

    def end_epoch(self, message: EndQuorumEpoch, now_ms: int) -> list[Effect]:
        me = self._node.me.node_id
        is_current = message.epoch == self.epoch and not self.is_leader
        if (is_current or self._is_next(message.epoch)) and self._is_known_to(message.successors.get(me)):
            self._detach(message.epoch, now_ms)
            if self.is_voter and me in message.successors:
                place = list(message.successors).index(me)
                self.role = Unattached(now_ms + place * self._limits.soon_ms)
        return self._effects()

    def _hear_of(self, epoch: int, leader_id: int | None, now_ms: int) -> None:
        if epoch > self.epoch:
            self._detach(epoch, now_ms)
        if epoch < self.epoch or leader_id is None or leader_id == self._node.me.node_id or self.is_leader:
            return
        if not (isinstance(self.role, Follower) and self.role.leader_id == leader_id):
            self._follow(leader_id, now_ms)

    def _follow(self, leader_id: int, now_ms: int) -> None:
        if self.leader_id != leader_id:
            self._remember(ElectionState(self.epoch, self.state.voted_for, leader_id))
        self.role = role = Follower(leader_id, now_ms + self._election_ms())
        self._fetch(role, now_ms)

    def _fetch(self, role: Follower, now_ms: int) -> None:
        role.next_fetch_ms = None
        role.answer_due_ms = now_ms + self._limits.request_ms_max * self._patience
        self._do(Send(role.leader_id, self._fetch_request()))

    def _fetch_request(self) -> FetchRequest:
        node = self._node
        return FetchRequest(self.epoch, node.me, node.log.flushed_end_offset, node.last_epoch)

    def _look_for_leader(self, now_ms: int) -> None:
        """An observer asks one voter after the other; whoever is not the leader names it."""
        self._detach(self.epoch, now_ms)
        self.role = Unattached(now_ms + self._limits.retry_ms)
        others = self._node.others
        if others:
            self._asked_last = (self._asked_last + 1) % len(others)
            self._do(Send(others[self._asked_last], self._fetch_request()))

    def fetch_response(self, response: FetchResponse, now_ms: int) -> list[Effect]:
        self._hear_of(response.epoch, response.leader_id, now_ms)
        role = self.role
        if not isinstance(role, Follower) or role.answer_due_ms is None or response.epoch != self.epoch:
            return self._effects()
        if response.is_refused:
            role.answer_due_ms, role.next_fetch_ms = None, now_ms + self._limits.retry_ms
            return self._effects()
        role.answer_due_ms = None
        role.has_fetched = True
        role.election_ms = now_ms + self._election_ms()
        if response.snapshot is not None:
            if not self._would_lose(response.snapshot.end_offset, role, now_ms):
                self._do(LoadSnapshot(role.leader_id, response.snapshot))
        elif response.diverging is not None:
            offset = truncation_offset(self._node.log, response.diverging)
            if not self._would_lose(offset, role, now_ms):
                self._node.membership.truncated(offset)
                self._do(Truncate(offset))
        elif response.start_offset == self._node.log.flushed_end_offset:
            role.high_watermark = response.high_watermark
            self._do(AppendFetched())
        else:
            role.next_fetch_ms = now_ms  # the answer to an earlier question
        return self._effects()

    def _would_lose(self, offset: int, role: Follower, now_ms: int) -> bool:
        """Whether a log of the leader's that says no more than up to `offset` lacks what is committed.

        A leader that was elected by voters does not. Whoever this one is, it is not followed backwards.
        """
        committed = max(self.high_watermark, self._node.noted_high_watermark)
        if offset >= committed:
            return False
        role.next_fetch_ms = now_ms + self._limits.election_ms_min
        self._do(StandStill(role.leader_id, offset, committed))
        return True

    def fetch_failed(self, now_ms: int, *, is_down: bool) -> list[Effect]:
        """No answer came, and none will. A leader that is down is not waited for."""
        role = self.role
        if isinstance(role, Follower) and role.answer_due_ms is not None:
            role.answer_due_ms, role.next_fetch_ms = None, now_ms + self._limits.retry_ms
            if is_down:
                role.has_fetched = False
                role.election_ms = min(role.election_ms, now_ms + self._soon_ms())
        return self._effects()

    # Small things

    def _election_ms(self) -> int:
        return self._jitter(self._limits.election_ms_min, self._limits.election_ms_max) * self._patience

    @property
    def _patience(self) -> int:
        return 1 if self.is_voter else OBSERVER_PATIENCE

    def _soon_ms(self) -> int:
        """Time for one of several to be elected before the next one tries."""
        return self._jitter(0, self._limits.soon_ms)

    def _remember(self, state: ElectionState) -> None:
        is_news = state.leader_id != self.leader_id
        self._node.state = state
        self._do(Persist(state))
        if is_news:
            self._do(LeaderIs(state.epoch, state.leader_id))

    def _do(self, effect: Effect) -> None:
        self._node.effects.append(effect)

    def _effects(self) -> list[Effect]:
        effects, self._node.effects = self._node.effects, []
        return effects
